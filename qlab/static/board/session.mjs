// What the kernel tells a panel that does one long thing at a time: all of it each time, since it is little.

import { Kernel, shared } from "./kernel.mjs";

export class Session extends Kernel {
  constructor(model, told) {
    super(model);
    Object.assign(this, { told, number: told.number });
    this.ask("sync");
  }

  /** Whether the long thing goes on. */
  get busy() { return Boolean(this.told.doing); }
  /** Why nothing can be done now; empty where it can. */
  get cannot() {
    if (this.told.closed) return "this lab is closed: run the cell that makes it again";
    return this.busy ? `${this.told.doing}: wait, or press Stop` : "";
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
