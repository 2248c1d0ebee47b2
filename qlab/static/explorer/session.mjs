// What the kernel tells an explorer: all of it each time, since it is little.

import { Kernel, shared } from "../board/kernel.mjs";

/** Which orders are browsed, beside those of an outcome; as in Python. */
export const ALL = "!all";
export const BROKEN = "!broken";

export class Session extends Kernel {
  constructor(model, told) {
    super(model);
    Object.assign(this, { told, number: told.number });
    this.ask("sync");
  }

  /** Whether an exploration goes on. */
  get busy() { return this.told.looked !== null; }
  /** Why nothing can be done now; empty where it can. */
  get cannot() {
    if (this.told.closed) return "this lab is closed: run the cell that makes it again";
    return this.busy ? "it explores: wait, or press Stop" : "";
  }

  absorb(told, buffers = []) {
    if (told.number >= this.number) Object.assign(this, { told, number: told.number });
    if (this.waiting.size) {
      this.quiet = null;
      this.awaited(true); // it is at work, however long that takes
    }
    this.settle(told.answer, buffers);
    this.changed();
  }

  async do(command, args) {
    const answer = await this.ask(command, args);
    this.heard += 1;
    return answer;
  }

  stop() {
    this.model.send({ cmd: "stop", args: {} });
  }
}

/** Find a model's session, or make it. */
export function sessionOf(model) {
  const told = model.get("told");
  return shared(told.key, () => new Session(model, told));
}
