// What the kernel tells, kept for all views of a board. The kernel holds the truth; a page that was kept has none.

import { Kernel, shared } from "./kernel.mjs";
import { cut, empty, reduce, unpack } from "./state.mjs";
import { tell, tellTime } from "./words.mjs";
import { isDouble, tellDoubles } from "./ledger.mjs";

const LOGGED = 60;

const newSide = () => ({ events: [], texts: [], ledger: [], seats: [], failed: [], rows: new Map(), hadRow: new Set(), doubles: [], state: empty(), past: null });

/** What is known of one model, shared by all its views. Without a model it is a page that somebody kept. */
export class Store extends Kernel {
  constructor(model, told) {
    super(model);
    Object.assign(this, { head: {}, sides: [], layout: -1, number: 0, position: null, log: [] });
    if (told?.head) this.absorb({ ...told, whole: true });
    if (model) this.ask("sync");
  }

  get live() { return this.model !== null; }
  get first() { return this.sides[0]; }
  get length() { return this.first ? this.first.events.length : 0; }
  get past() { return this.position !== null; }
  /** Why nothing can be done now; empty where it can. */
  get cannot() {
    if (this.head.closed) return "this lab is closed: run the cell that makes it again";
    return this.past ? "you are looking at the past: press Now first, or Branch here" : "";
  }
  /** The moment that is shown. */
  get now() {
    if (!this.past) return this.head.now ?? 0;
    return this.position === 0 ? 0 : this.first.events[this.position - 1].at;
  }

  /** Take in what is new. A message that is older than what is there adds nothing; after a gap, everything is asked for. */
  absorb(told, buffers = []) {
    const stale = !told.whole && told.number <= this.number;
    if (!stale && !told.whole && told.number !== this.number + 1) this.ask("sync");
    else if (!stale) this.take(told);
    this.settle(told.answer, buffers);
    this.changed();
  }

  take(told) {
    const then = this.head.now ?? 0;
    if (told.layout !== this.layout) {
      Object.assign(this, { layout: told.layout, position: null, log: [] });
      this.sides = told.sides.map(newSide);
    }
    this.number = told.number;
    Object.assign(this.head, told.head);
    told.sides.forEach((piece, i) => this.takeSide(this.sides[i], piece, i === 0 ? then : null));
  }

  takeSide(side, { events, ledger, ledger_from, ...present }, then) {
    side.texts.push(...events.texts.slice(side.texts.length - events.texts_from));
    const news = unpack(events, side.texts, side.events.length - events.from);
    let moment = news.length < 500 ? then : null; // since when time has gone by untold
    const pass = (until) => {
      if (moment !== null && until > moment) this.note(...tellTime(side.state, moment, until));
      moment = moment === null ? null : Math.max(moment, until);
    };
    const entries = ledger.slice(side.ledger.length - ledger_from);
    side.ledger.push(...entries);
    side.doubles.push(...entries.filter(isDouble));
    news.forEach((event, i) => {
      pass(event.at);
      side.events.push(event);
      reduce(side.state, event);
      if (i < news.length - LOGGED || event.kind === "expired") return; // the reservation after it says so
      const place = side.events.length - 1;
      if (then === null) return this.noteOwn(present.driver ?? side.driver, event, tell(side.events, place));
      const same = { polls: event.kind === "missed" ? 1 : 0, lost: event.kind === "lost" && "the first" };
      this.note({ at: event.at, text: tell(side.events, place), ...same }, ...tellDoubles(side, place));
    });
    pass(this.head.now);
    Object.assign(side, present);
    side.rows = new Map(side.failed);
    for (const [job] of side.failed) side.hadRow.add(job);
  }

  /** Say that another driver's server was restarted, and what it has lost: nothing else that only it does has a line. */
  noteOwn(driver, { kind, at, detail }, text) {
    const told = kind === "lost" || (kind === "restarted" && detail === "server");
    if (told && at >= (this.log.at(-1)?.at ?? 0)) this.note({ at, text: `${driver}: ${text}`, lost: kind === "lost" && driver });
  }

  /** Add lines to the log of what happened. */
  note(...lines) {
    for (const line of lines) {
      const last = this.log.at(-1);
      if ((line.polls && last?.polls) || (line.lost && last?.lost === line.lost)) this.log.pop(); // the line tells of those before, too
      if (line.polls && last?.polls) Object.assign(line, { polls: last.polls + 1, text: `nobody found anything that is due, in ${last.polls + 1} polls` });
      this.log.push(line);
    }
    this.log.splice(0, this.log.length - LOGGED);
    this.heard += lines.length;
  }

  /** Let time go by: one message in flight, none while the page is hidden. */
  async run(speed) {
    const run = (this.running = Date.now());
    let last = performance.now(), left = 0;
    while (this.running === run && this.views.size > 0) {
      const began = performance.now();
      left += Math.min(0.25, (began - last) / 1000) * speed();
      last = began;
      if (document.hidden) left = 0;
      const seconds = Math.floor(left * 10) / 10; // round moments are easier to read
      if (seconds > 0) {
        left -= seconds;
        const answer = await this.ask("run", { seconds, run });
        if (answer.error) this.stop();
      }
      await new Promise((wake) => setTimeout(wake, Math.max(20, 100 - (performance.now() - began))));
    }
  }

  stop() {
    if (this.running) this.model.send({ cmd: "stop", args: { run: this.running } });
    this.running = 0;
    this.changed();
  }

  /** Look at the state after so many events; null looks at now. */
  look(position) {
    if (this.running) this.stop();
    const last = this.length;
    this.position = position === null || (position >= last && this.live) ? null : Math.max(0, Math.min(last, position));
    this.hint = "";
    this.heard += 1;
    this.changed();
  }

  /** The state of a side at the moment that is shown. */
  seen(side) {
    if (!this.past) return { state: side.state, count: side.events.length };
    const count = cut(this.first.events, side.events, this.position);
    if (!side.past || side.past.count > count) side.past = { state: empty(), count: 0 };
    while (side.past.count < count) reduce(side.past.state, side.events[side.past.count++]);
    return side.past;
  }
}

/** Find a model's store, or make it; `release` it when it is not needed any more. */
export function storeOf(model) {
  const told = model.get("told");
  return shared(told.board, () => new Store(model, told));
}
