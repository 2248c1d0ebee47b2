// The board's front end, one module: no build step, no network, nothing touches the page until `render` or `mount`.
//
// The kernel holds the truth. What is kept here is every event of each driver, and `reduce` turns events into the state
// at any moment, just as Python's `Trace.at` does; so the scrubber needs no kernel. Read on in this order: events and
// state, words, what the kernel tells (Store), small tools for elements, the parts of a board, the board.

// -- events and state --------------------------------------------------------------------------------------------------

export const KINDS = [
  "dispatched", "reserved", "extended", "completed", "released", "failed", "expired", "superseded",
  "retried", "forgotten", "recovered", "cleared", "missed", "blocked", "crashed", "progressed",
  "paused", "resumed", "restarted", "lost",
];
const SETTLES = { completed: "done", failed: "failed", lost: "lost" };
const APPEARS = ["reserved", "released", "recovered", "completed", "failed"];
const NEVER = 2 ** 53;

const seconds = (us) => (us === null ? null : us >= NEVER ? Infinity : us / 1e6);

/** Turn the columns that the kernel packed into events; `texts` are all texts so far. */
export function unpack(columns, texts, first = 0) {
  const events = [];
  for (let i = first; i < columns.at.length; i++) {
    events.push({
      at: seconds(columns.at[i]), kind: KINDS[columns.kind[i]], job: columns.job[i], name: texts[columns.name[i]],
      attempt: columns.attempt[i], worker: texts[columns.worker[i]], since: seconds(columns.since[i]),
      until: seconds(columns.until[i]), detail: texts[columns.detail[i]],
    });
  }
  return events;
}

/** The state before anything has happened. */
export const empty = () => ({ at: -Infinity, jobs: new Map(), before: [], hands: new Map(), away: new Map(), turn: 0 });

/**
 * Go one event further: `jobs` and `before` as in Python's `Moment`; besides, what each worker has in its `hands`, and which are
 * `away`, crashed or paused. Changes `state`.
 */
export function reduce(state, event) {
  const { at, kind, job, detail } = event;
  state.at = Math.max(state.at, at);
  state.turn += 1;
  if (kind === "cleared") for (const [id, seen] of state.jobs) if (!seen.settled) state.jobs.delete(id);
  attend(state, event);
  if (job === null) return state;
  if (kind === "retried" || kind === "forgotten") {
    drop(state, job);
    return state;
  }
  if (kind === "dispatched") {
    if (state.jobs.get(job)?.settled) state.before.push(state.jobs.get(job));
    state.jobs.set(job, fresh(job, event.name, event.until ?? at, state.turn));
    return state;
  }
  if (!state.jobs.has(job) && APPEARS.includes(kind)) state.jobs.set(job, fresh(job, event.name, event.until ?? at, state.turn));
  const seen = state.jobs.get(job);
  if (!seen) return state;
  if (kind === "reserved") Object.assign(seen, { attempts: event.attempt, worker: event.worker, reserved: true, settled: null });
  if (kind === "released" || kind === "recovered") Object.assign(seen, { worker: "", reserved: false, turn: state.turn });
  if (["reserved", "extended", "released", "recovered"].includes(kind) && event.until !== null) {
    Object.assign(seen, { available_at: event.until, from: at });
  }
  if (kind in SETTLES) Object.assign(seen, { settled: SETTLES[kind], worker: "", reserved: false, turn: state.turn });
  if (detail && !["expired", "superseded", "resumed"].includes(kind)) seen.detail = detail;
  handOver(state, event);
  return state;
}

const fresh = (id, name, available_at, turn) => ({
  id, name, attempts: 0, available_at, worker: "", reserved: false, settled: null, detail: "", from: 0, turn, born: turn, progress: "",
});

/** Drop a failed job, which may be one of those before. */
function drop(state, job) {
  const place = state.before.findLastIndex((seen) => seen.id === job && seen.settled === "failed");
  if (place >= 0 && state.jobs.get(job)?.settled !== "failed") state.before.splice(place, 1);
  else state.jobs.delete(job);
}

/** All jobs that are known, also those whose ids were given again. */
const known = (state) => [...state.before, ...state.jobs.values()];

/** Keep which workers are away, and empty the hands of one that crashed. */
function attend(state, { kind, worker }) {
  if (kind === "crashed" || kind === "paused") state.away.set(worker, kind);
  if (kind === "crashed") state.hands.delete(worker);
  if (kind === "resumed") state.away.delete(worker);
  if (kind === "restarted") state.away.clear();
}

/** Keep what is in whose hands: a worker goes on with its job also when the reservation is not its own any more. */
function handOver(state, { kind, job, worker, attempt, until, detail, at }) {
  const seen = state.jobs.get(job);
  if (kind === "progressed") seen.progress = detail;
  if (kind === "reserved") {
    seen.progress = "";
    if (worker) state.hands.set(worker, { job, attempt, until, since: at });
  }
  const hand = state.hands.get(worker);
  if (!hand || hand.job !== job || hand.attempt !== attempt) return;
  if (kind === "extended") hand.until = until;
  const over = ["completed", "released", "failed"].includes(kind) || (kind === "superseded" && detail !== "extend");
  if (over) state.hands.delete(worker);
}

/** Tell a job's state at a moment: a function of what is known of it, and of the moment. */
export function stateOf(seen, now) {
  if (seen.settled) return seen.settled;
  return seen.available_at <= now ? "ready" : seen.reserved ? "reserved" : "delayed";
}

/** Rebuild what was where at a moment: every event up to and including it has happened. */
export function at(events, moment) {
  const state = empty();
  for (const event of events) {
    if (event.at <= moment) reduce(state, event);
  }
  state.at = moment;
  return state;
}

/** Sort jobs into lanes at a moment; `left` says which failed jobs are known to have left the store. */
export function lanes(state, now, left = () => false) {
  const found = { delayed: [], ready: [], reserved: [], done: [], failed: [], lost: [] };
  for (const seen of known(state)) {
    const where = stateOf(seen, now);
    if (where !== "failed" || !left(seen.id)) found[where].push(seen);
  }
  const due = (a, b) => a.available_at - b.available_at || a.turn - b.turn;
  for (const lane of ["delayed", "ready", "reserved"]) found[lane].sort(due);
  for (const lane of ["done", "failed"]) found[lane].sort((a, b) => b.turn - a.turn);
  found.lost.sort((a, b) => a.turn - b.turn);
  return found;
}

/** How many events of a side belong to a position among the first side's events: those of its moments up to there. */
export function cut(first, side, position) {
  if (side === first) return position;
  if (position >= first.length) return side.length;
  if (position === 0) return 0;
  const moment = first[position - 1].at;
  let begun = position;
  while (begun > 0 && first[begun - 1].at === moment) begun -= 1;
  const whole = first[position].at > moment;
  let i = 0;
  while (i < side.length && side[i].at < moment) i += 1;
  for (let taken = 0; i < side.length && side[i].at === moment && (whole || taken < position - begun); taken++) i += 1;
  return i;
}

// -- words -------------------------------------------------------------------------------------------------------------

/** Show seconds for people, as `qlab.show.seconds` does. */
export function s(value) {
  if (value === null || value === undefined) return "–";
  if (value === Infinity) return "never";
  return value.toFixed(Math.abs(value) >= 0.1 ? 3 : 6).replace(/\.?0+$/, "") + " s";
}

const about = (value) => (value === Infinity ? "∞" : s(value >= 10 ? Math.round(value) : Math.round(value * 10) / 10));

/** Find the last event before one that is so. */
function last(events, i, is) {
  for (let k = i - 1; k >= 0; k--) if (is(events[k])) return events[k];
  return null;
}

/** Find an earlier event of a job. */
const earlier = (events, i, job, kinds) => last(events, i, (one) => one.job === job && kinds.includes(one.kind));

const HOLDS = ["reserved", "extended"];

/** Say what happened in an event, and why. */
export function tell(events, i) {
  const event = events[i];
  return (SAYS[event.kind] ?? (() => event.kind))(event, events, i);
}

function again(before) {
  if (before?.kind !== "retried") return "";
  return ` anew for ${before.job === null ? "one" : `job ${before.job}`} that had failed, with its attempts at 0`;
}

const who = (event) => event.worker || "a worker";

const SAYS = {
  dispatched: (e, events, i) => `job ${e.job} (${e.name}): dispatched${again(events[i - 1])}` +
    (e.until > e.at ? `; it may be reserved from ${s(e.until)}, because it was given a delay` : "; it is ready at once"),
  reserved(e, events, i) {
    const until = e.until === Infinity ? "" : ` until ${s(e.until)}`;
    return `job ${e.job}: reserved ${e.attempt > 1 ? "again " : ""}by ${who(e)}${until}, because ${why(e, events, i)}`;
  },
  extended: (e) => `job ${e.job}: ${who(e)} extended its reservation, until ${s(e.until)}`,
  completed(e, events, i) {
    const held = earlier(events, i, e.job, HOLDS);
    const late = held && held.until <= e.at ? `, although its reservation had run out at ${s(held.until)}: nobody had taken it since` : "";
    return `job ${e.job}: done, because ${who(e)}'s attempt ${e.attempt} returned${late}`;
  },
  released: (e) => e.detail
    ? `job ${e.job}: attempt ${e.attempt} failed (${e.detail}); after its backoff it may be reserved from ${s(e.until)}`
    : `job ${e.job}: given back by ${who(e)}; it may be reserved from ${s(e.until)}`,
  failed: (e) => `job ${e.job}: failed for good, because ${e.attempt === 1 ? "its one attempt is" : `all ${e.attempt} attempts are`} used up (${e.detail})`,
  expired(e, events, i) {
    const held = earlier(events, i, e.job, HOLDS);
    return `job ${e.job}: ${held ? who(held) : "a worker"}'s reservation had run out at ${s(e.until)} without an answer`;
  },
  superseded(e, events, i) {
    const other = earlier(events, i, e.job, ["reserved", "lost"]);
    const taken = other?.kind === "lost" ? `it was lost at ${s(other.at)}`
      : other && other.attempt !== e.attempt ? `${who(other)} reserved it at ${s(other.at)}` : "it is not its own any more";
    const again = e.detail === "extend" ? "" : `, but its handler did run${other?.kind === "lost" ? "" : ", once more"}: what that did stays done`;
    return `job ${e.job}: ${who(e)} came too late to ${e.detail} it, because ${taken}; the store changed nothing${again}`;
  },
  retried: (e) => `${e.job === null ? e.detail : `job ${e.job}`} (${e.name}): taken from the failed jobs, to be tried again`,
  forgotten: (e) => `${e.job === null ? e.detail : `job ${e.job}`}: forgotten, its row is deleted`,
  recovered: (e) => `job ${e.job}: recovered; it may be reserved at once`,
  cleared: (e) => `the queue is empty now${e.detail ? ` (${e.detail})` : ""}`,
  missed: (e) => `${who(e)} found nothing that is due`,
  blocked: (e) => `${who(e)} waited for a lock (${e.detail})`,
  crashed: (e, events, i) => `${who(e)} crashed with ${hand(e)}; ${e.job === null ? "nothing is lost" : `the store is not told, and ${deadline(e, events, i)}`}`,
  paused: (e, events, i) => `${who(e)} is paused with ${hand(e)}; ${e.job === null ? "it takes none until it is resumed" : deadline(e, events, i, "still ")}`,
  resumed(e, events, i) {
    const crash = e.detail === "after a crash" ? last(events, i, (one) => one.kind === "crashed" && one.worker === e.worker) : null;
    if (crash) return `${who(e)} was restarted${crash.job === null ? ": it may take a job again" : ` and knows nothing of job ${crash.job}; ${deadline({ ...crash, at: e.at }, events, i)}`}`;
    return `${who(e)} resumed with ${hand(e)}; ${e.job === null ? "it may take one again" : deadline(e, events, i)}`;
  },
  restarted: ({ detail }) => (detail === "server" ? "the server was restarted"
    : "the process was restarted: every worker is there again, with no job in hand"),
  lost(e, events, i) {
    let first = i;
    while (first > 0 && events[first - 1].kind === "lost") first -= 1;
    const ids = events.slice(first, i + 1).map((one) => one.job);
    const { kind, detail } = events[first - 1] ?? {};
    const [are, them] = ids.length > 1 ? ["are", "them"] : ["is", "it"];
    return `${named(ids)} ${are} lost: ${kind === "restarted" ? `the ${detail} kept ${them} in memory only` : e.detail}`;
  },
  progressed: (e) => `job ${e.job}: ${e.detail} done`,
};

/** Name jobs, the first few of many. */
const named = (ids) => `job${ids.length > 1 ? "s" : ""} ${ids.slice(0, 5).join(", ")}${ids.length > 5 ? ` and ${(ids.length - 5).toLocaleString("en")} more` : ""}`;

const hand = (e) => (e.job === null ? "no job in hand" : `job ${e.job} in hand`);

/** Say until when the store keeps a job for the worker that has it in hand. */
function deadline(e, events, i, still = "") {
  const mine = last(events, i, (one) => one.job === e.job && one.attempt === e.attempt && HOLDS.includes(one.kind));
  const other = earlier(events, i, e.job, ["reserved", "lost"]);
  if (other?.kind === "lost") return `it was lost at ${s(other.at)}`;
  if (other && other.attempt !== e.attempt) return `${who(other)} has reserved it since, at ${s(other.at)}`;
  if (!mine || mine.until === Infinity) return "its reservation never runs out";
  return `its reservation ${mine.until <= e.at ? "ran out" : `${still}runs out`} at ${s(mine.until)}`;
}

function why(e, events, i) {
  const ended = events[i - 1];
  if (ended?.kind === "expired" && ended.job === e.job) {
    const held = earlier(events, i - 1, e.job, HOLDS);
    return `${held ? (held.worker === e.worker ? "its own" : `${who(held)}'s`) : "the"} reservation ran out at ${s(ended.until)}`;
  }
  const came = earlier(events, i, e.job, ["dispatched", "retried", "released", "recovered"]);
  if (came?.kind === "released") return came.detail ? `its backoff ended at ${s(came.until)}` : `it was given back at ${s(came.at)}`;
  if (came?.kind === "recovered") return `it was recovered at ${s(came.at)}`;
  return `it had been ready longest, since ${s(e.since)}`;
}

/** Say what time alone has changed between two moments. */
export function tellTime(state, then, now) {
  const turned = [...state.jobs.values()].filter((j) => !j.settled && then < j.available_at && j.available_at <= now);
  turned.sort((a, b) => a.available_at - b.available_at);
  const told = turned.slice(0, 6).map((j) => ({
    at: j.available_at,
    text: j.reserved
      ? `job ${j.id}: ${j.worker || "its"}${j.worker ? "'s" : ""} reservation ran out at ${s(j.available_at)}; it may be reserved by others now`
      : `job ${j.id}: ready, because its ${j.attempts ? "backoff" : "delay"} ended at ${s(j.available_at)}`,
  }));
  if (turned.length > 6) told.push({ at: now, text: `and ${turned.length - 6} more jobs became ready` });
  return told;
}

const TIMES = ["", "once", "twice"];
const times = (count) => TIMES[count] ?? `${count} times`;

const isDouble = ([, , , , , effect]) => effect > 1;

/** Say which jobs took effect once more, just before the event at a place; the ledger's `doubles` tell. */
export function tellDoubles(side, place) {
  return side.doubles.filter((entry) => entry[4] === place).map((entry) => {
    const [at, job, , worker, , effect] = entry;
    const before = side.ledger.slice(0, side.ledger.indexOf(entry)).findLast((one) => one[1] === job && one[5] === effect - 1);
    const { balance, expected } = ledger(side.ledger.slice(0, side.ledger.indexOf(entry) + 1));
    const first = before ? `${before[3] || "a worker"}'s run took effect at ${s(before[0])}, ` : "";
    return { at, text: `job ${job} ran ${times(effect)}: ${first}${worker || "a worker"}'s again at ${s(at)}; the balance is ${balance}, expected ${expected}` };
  });
}

/** Tell how often jobs took effect of which more than one effect is entered in the ledger, as far as so many events. */
function effectsOf(side, state, count) {
  const doubles = side.doubles.filter((entry) => entry[4] < count);
  const jobs = doubles.length ? known(state) : [];
  return new Map(doubles.map(([, job, , , events, effect]) => [jobs.findLast((seen) => seen.id === job && seen.born <= events), effect]));
}

// -- what the kernel tells ---------------------------------------------------------------------------------------------

const LOGGED = 60;

const newSide = () => ({ events: [], texts: [], ledger: [], seats: [], failed: [], rows: new Map(), hadRow: new Set(), doubles: [], state: empty(), past: null });

/** What is known of one model, shared by all its views. Without a model it is a page that somebody kept. */
export class Store {
  constructor(model, told) {
    Object.assign(this, { model, head: {}, sides: [], layout: -1, number: 0, position: null, log: [], heard: 0, running: 0 });
    Object.assign(this, { views: new Set(), waiting: new Map(), asked: 0, hint: "", users: 0, slow: false, quiet: null });
    this.me = Math.random().toString(36).slice(2);
    this.listen = (content, buffers) => content?.type === "told" && this.absorb(content, buffers);
    model?.on("msg:custom", this.listen);
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
      if (then === null || i < news.length - LOGGED || event.kind === "expired") return; // the reservation after it says so
      const place = side.events.length - 1;
      const same = { polls: event.kind === "missed" ? 1 : 0, lost: event.kind === "lost" };
      this.note({ at: event.at, text: tell(side.events, place), ...same }, ...tellDoubles(side, place));
    });
    pass(this.head.now);
    Object.assign(side, present);
    side.rows = new Map(side.failed);
    for (const [job] of side.failed) side.hadRow.add(job);
  }

  /** Add lines to the log of what happened. */
  note(...lines) {
    for (const line of lines) {
      const last = this.log.at(-1);
      if ((line.polls && last?.polls) || (line.lost && last?.lost)) this.log.pop(); // the line tells of those before, too
      if (line.polls && last?.polls) Object.assign(line, { polls: last.polls + 1, text: `nobody found anything that is due, in ${last.polls + 1} polls` });
      this.log.push(line);
    }
    this.log.splice(0, this.log.length - LOGGED);
    this.heard += lines.length;
  }

  settle(answer, buffers) {
    const done = answer && this.waiting.get(answer.id);
    if (!done) return;
    this.waiting.delete(answer.id);
    if (!this.waiting.size) this.awaited(false);
    done({ ...answer, buffers });
  }

  /** Ask the kernel to do something; the answer says how it went. Errors are in `head.problem`. */
  ask(cmd, args = {}) {
    const id = `${this.me}-${++this.asked}`;
    this.hint = "";
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.awaited(true);
      try {
        this.model.send({ cmd, args, id });
      } catch (error) {
        this.lost(`The kernel cannot be reached (${error.message}): run the cell again.`);
      }
    });
  }

  /** While an answer is awaited, say so after a moment, and once more when it does not come at all. */
  awaited(on) {
    clearTimeout(this.timer);
    if (!on) { this.slow = false; this.quiet = null; return; }
    this.timer = setTimeout(() => {
      this.slow = true;
      this.changed();
      this.timer = setTimeout(() => {
        this.quiet = "The kernel has not answered for 10 s: a cell or a handler may be busy, or the kernel is gone. If it was restarted, run the cell again.";
        this.changed();
      }, 9500);
    }, 500);
  }

  lost(text) {
    this.waiting.clear();
    this.awaited(false);
    this.running = 0;
    this.quiet = text;
    this.changed();
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

  say(text) {
    this.hint = text;
    this.heard += 1;
    this.changed();
  }

  /** Draw all views, once a frame. */
  changed() {
    if (this.frame || typeof requestAnimationFrame === "undefined") return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      for (const draw of this.views) draw();
    });
  }

  close() {
    this.model?.off("msg:custom", this.listen);
    clearTimeout(this.timer);
    this.running = 0;
  }
}

const stores = new Map();

/** Find a model's store, or make it; `release` it when it is not needed any more. */
function storeOf(model) {
  const told = model.get("told");
  if (!stores.has(told.board)) stores.set(told.board, new Store(model, told));
  const store = stores.get(told.board);
  store.users += 1;
  return store;
}

function release(store) {
  store.users -= 1;
  if (store.users > 0) return;
  store.close();
  for (const [key, value] of stores) if (value === store) stores.delete(key);
}

// -- small tools for elements ------------------------------------------------------------------------------------------

const SUPPRESS = "data-lm-suppress-shortcuts";
const FOCUSABLE = ["button", "select", "input", "textarea", "summary"];

/** Make an element: attributes, `on…` listeners, children. Text is only ever set as text. */
function h(tag, attributes = {}, ...children) {
  const el = document.createElement(tag);
  // JupyterLab must not take a key for its own while one of these has the focus: `d d` would delete the learner's cell.
  if (FOCUSABLE.includes(tag) || "tabindex" in attributes) el.setAttribute(SUPPRESS, "true");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) el.setAttribute(name, value === true ? "" : value);
  }
  el.append(...children.filter((child) => child !== null && child !== false));
  return el;
}

function setText(el, text) {
  if (el.textContent !== String(text)) el.textContent = text;
}

function setAttribute(el, name, value) {
  if (value === null || value === false) el.removeAttribute(name);
  else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, value === true ? "" : value);
}

/** Make a container hold one element for each item, in order; elements are kept by key. */
function keyed(container, items, key, make, update) {
  const there = (container.__keyed ??= new Map());
  const wanted = new Set(items.map(key));
  for (const [name, el] of there) if (!wanted.has(name)) { el.remove(); there.delete(name); }
  items.forEach((item, i) => {
    const name = key(item);
    if (!there.has(name)) there.set(name, make(item));
    const el = there.get(name);
    update?.(el, item);
    if (container.children[i] !== el) container.insertBefore(el, container.children[i] ?? null);
  });
}

// Each model of a page has a copy of this module, and all their boards share one document.
const HERE = Math.random().toString(36).slice(2);
let made = 0;
const newId = (what) => `qlab-${what}-${HERE}-${++made}`;

/** A control with its label. */
function field(label, control, className = "") {
  const id = (control.id = newId("field"));
  return h("div", { class: `field ${className}` }, h("label", { for: id }, label), control);
}

function button(text, onclick, attributes = {}) {
  return h("button", { type: "button", onclick: (event) => press(event, onclick), title: attributes["data-about"], ...attributes }, text);
}

/** A button that cannot be used now keeps its focus and says why; `disabled` would drop the focus into the notebook. */
function press(event, act) {
  const el = event.currentTarget;
  if (el.getAttribute("aria-disabled") === "true") el.dispatchEvent(new CustomEvent("qlab-why", { bubbles: true, detail: el.title }));
  else act(event);
}

function enable(el, reason) {
  setAttribute(el, "aria-disabled", reason ? "true" : null);
  setAttribute(el, "title", reason || el.dataset.about || null);
}

const group = (name, className, ...children) => h("div", { role: "group", "aria-label": name, class: className }, ...children);

const aside = (text) => h("p", { class: "about" }, text);

function details(name, ...children) {
  const note = h("span", { class: "note" });
  const el = h("details", { class: `more more-${name.toLowerCase()}` }, h("summary", {}, name, note), h("div", { class: "panel" }, ...children));
  el.note = note;
  return el;
}

/** Hand the reader a file. */
function download(name, parts, type) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// -- the parts of a board ----------------------------------------------------------------------------------------------
// Each takes the store and gives { el, draw }.

function dispatchPart(store) {
  const handler = h("select", {});
  const payload = h("input", { type: "text", value: '{"amount": 10}', spellcheck: "false", autocomplete: "off", oninput: check });
  const problem = h("p", { class: "problem", id: newId("problem") });
  const delay = h("input", { type: "number", min: "0", step: "any", value: "0" });
  const count = h("input", { type: "number", min: "1", max: "5000", value: "1" });
  const send = h("button", { type: "submit", class: "primary" }, "Dispatch");
  payload.setAttribute("aria-describedby", problem.id);

  function check() {
    const wrong = notJson(payload.value);
    setAttribute(payload, "aria-invalid", wrong ? "true" : null);
    setText(problem, wrong);
    return !wrong;
  }
  function submit(event) {
    event.preventDefault();
    if (store.cannot) return store.say(store.cannot);
    if (!check()) return payload.focus();
    const args = { handler: handler.value, payload: payload.value, delay: Number(delay.value), count: Number(count.value) };
    return store.ask("dispatch_text", args);
  }
  const el = h("form", { class: "dispatch", "aria-label": "Dispatch", novalidate: true, onsubmit: submit },
    field("Handler", handler), field("Payload", payload, "wide"), field("Delay (s)", delay, "short"),
    field("How many", count, "short"), send, problem);
  const draw = () => {
    const chosen = handler.value;
    keyed(handler, store.head.handlers ?? [], (name) => name, (name) => h("option", { value: name }, name));
    if ((store.head.handlers ?? []).includes(chosen)) handler.value = chosen;
    else if (!chosen && (store.head.handlers ?? []).includes("pay")) handler.value = "pay";
    enable(send, store.cannot);
  };
  return { el, draw };
}

/** Say what is wrong with a text that should be JSON; an empty one is `null`. */
export function notJson(text) {
  if (!text.trim()) return "";
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    const quoted = /^[\p{L}_][\p{L}\p{N}_ -]*$/u.test(text.trim()) ? ` Text goes in quotes: "${text.trim()}"` : "";
    return `Not JSON: ${error.message}.${quoted}`;
  }
}

const SLOTS = { delayed: 5, ready: 5, done: 5, failed: 3 };
const TITLES = { delayed: "Delayed", ready: "Ready", reserved: "Reserved", done: "Done", failed: "Failed" };
const jobs = (count) => `${count} ${count === 1 ? "job" : "jobs"}`;

/** What a card says of a job that waits, is held, or has ended. */
function card(seen, where, now, how = "", effects = 1) {
  const left = seen.available_at - now;
  const runOut = where === "ready" && seen.reserved;
  const when = {
    delayed: () => `in ${about(left)}`, ready: () => (runOut ? "ran out" : ""), done: () => (effects > 1 ? `ran ${times(effects)}` : ""), failed: () => "",
    reserved: () => (left === Infinity ? "no limit" : `${about(left)} left`),
  }[where]();
  const note = { reserved: how || seen.progress, failed: seen.detail, delayed: seen.attempts ? seen.detail : "" }[where] ?? "";
  const bar = where === "reserved" && left < Infinity ? left / (seen.available_at - seen.from) : null;
  return { key: `job ${seen.id} ${seen.born}`, id: seen.id, name: seen.name, look: runOut ? "run-out" : how ? "orphan" : where === "done" && effects > 1 ? "twice" : where, when, note, bar, attempts: seen.attempts };
}

/** What a card says of a job that a worker goes on with although the reservation is not its own any more. */
function ghost(state, hand, now) {
  const seen = state.jobs.get(hand.job);
  const taken = seen && (seen.attempts !== hand.attempt || seen.settled);
  const done = seen?.settled === "lost" ? "it is lost" : seen?.settled ? "another has settled it" : "it is another's now";
  const note = taken ? done : "still works on it";
  const when = now > hand.until ? `${about(now - hand.until)} late` : "ran out";
  const key = `late ${hand.job} ${hand.attempt}`;
  return { key, id: hand.job, name: seen?.name ?? "", look: "late", when, note, bar: null, attempts: hand.attempt };
}

function makeCard(store, item, side) {
  const parts = ["icon", "id", "name", "when", "pips", "note", "bar"].map((name) => h("span", { class: name, "aria-hidden": "true" }));
  const el = h("li", { class: "job" }, h("span", { class: "sr" }), ...parts);
  [el.say, el.icon, el.jobId, el.jobName, el.when, el.pips, el.noted, el.bar] = el.children;
  el.bar.append(h("i"));
  if (item.look === "failed" && store.live) {
    const act = (verb) => store.ask(verb, { which: side().rows.get(item.id) ?? 0 });
    el.acts = [["Retry", "retry"], ["Forget", "forget"]].map(([text, verb]) =>
      button(text, () => act(verb), { "aria-label": `${text} job ${item.id}`, class: "small" }));
    el.append(h("span", { class: "acts" }, ...el.acts));
  }
  return el;
}

function drawCard(store, el, item) {
  if (el.className !== `job ${item.look}`) el.className = `job ${item.look}`;
  setText(el.jobId, item.id);
  setText(el.jobName, item.name);
  setText(el.when, item.when);
  setText(el.noted, item.note);
  setAttribute(el, "title", item.note || null);
  const tries = store.head.policy?.tries ?? 0;
  const pips = `${item.attempts}/${Math.max(tries, item.attempts)}`;
  if (el.pips.dataset.shown !== pips) {
    el.pips.dataset.shown = pips;
    el.pips.title = tries ? `attempt ${item.attempts} of ${tries}` : `attempt ${item.attempts}`;
    const total = Math.max(tries, item.attempts);
    if (total > 6 || !tries) el.pips.replaceChildren(item.attempts ? `×${item.attempts}` : "");
    else el.pips.replaceChildren(...Array.from({ length: total }, (_, i) => h("i", { class: i < item.attempts ? "used" : "" })));
  }
  el.bar.hidden = item.bar === null;
  if (item.bar !== null) el.bar.firstChild.style.transform = `scaleX(${Math.max(0, Math.min(1, item.bar)).toFixed(4)})`;
  const look = { "run-out": "its reservation ran out", orphan: "nobody works on it", late: "late worker", twice: "done" }[item.look] ?? item.look;
  setText(el.say, [`job ${item.id}`, item.name, look, item.when, item.attempts ? `attempt ${item.attempts}` : "", item.note].filter(Boolean).join(", "));
  for (const act of el.acts ?? []) enable(act, store.cannot);
}

/** Tell how many jobs a dot must stand for, so that all find room: 1, 2, 5, 10, 20, … */
export function jobsADot(jobs, room) {
  let each = 1;
  for (let i = 1; room > 0 && Math.ceil(jobs / each) > room; i++) each = [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3);
  return each;
}

/** A list of cards: the first few as cards, the others as dots, one for several where they are many. */
function cardList(store, shown, side, high = 48) {
  const list = h("ul", { class: "cards" });
  const dots = h("div", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"));
  const more = h("p", { class: "rest" });
  const draw = (items, count, label) => {
    setAttribute(list, "aria-label", `${label}: ${jobs(count)}`);
    const key = (item) => `${item.key} ${item.look === "failed"}`;
    keyed(list, items.slice(0, shown), key, (item) => makeCard(store, item, side), (el, item) => drawCard(store, el, item));
    const rest = count - Math.min(shown, items.length);
    const pitch = rest > 18 * (high / 6) ? 4 : 6;
    const columns = 108 / pitch;
    const room = columns * (high / pitch); // none in a worker's row
    const each = jobsADot(rest, room);
    const dotted = Math.min(room, Math.ceil(rest / each));
    setAttribute(dots, "class", rest > 0 ? "dots" : "dots none");
    dots.style.setProperty("--pitch", `${pitch}px`);
    for (const [i, [wide, high]] of [[columns, Math.floor(dotted / columns)], [dotted % columns, 1]].entries()) {
      Object.assign(dots.children[i].style, { width: `${wide * pitch}px`, height: `${(wide ? high : 0) * pitch}px` });
    }
    const many = rest.toLocaleString("en");
    setText(more, rest <= 0 ? "" : each > 1 ? `${many} more, ${each} a dot` : `and ${many} more`);
  };
  return { el: h("div", { class: "stack" }, list, dots, more), draw };
}

/** One driver's lanes. */
function sidePart(store, index, several) {
  const controls = store.live && !several;
  const counts = {}, stacks = {};
  const lane = (name, ...inside) => {
    counts[name] = h("b", {}, "0");
    const head = h("div", { class: "head" }, h("span", { class: "icon", "aria-hidden": "true" }), TITLES[name], counts[name]);
    return h("div", { class: `lane ${name}` }, head, ...inside);
  };
  const stacked = (name) => {
    stacks[name] = cardList(store, several ? Math.ceil(SLOTS[name] / 2) : SLOTS[name], () => store.sides[index], several ? 24 : 48);
    return lane(name, stacks[name].el);
  };
  const workers = h("div", { class: "workers" });
  const all = controls ? crewPart(store) : { el: "", draw() {} };
  const retryAll = button("Retry all", () => store.ask("retry", { which: "all" }), { class: "small retry-all", hidden: true });
  const failed = stacked("failed");
  failed.append(store.live && index === 0 ? retryAll : "");
  const what = h("p", { class: "what" });
  const differs = h("p", { class: "differs" });
  const lost = h("p", { class: "lost", hidden: true });
  const inOrder = [stacked("delayed"), stacked("ready"), lane("reserved", workers, all.el), stacked("done"), failed];
  const el = h("section", { class: "side" }, what, h("div", { class: "lanes" }, ...inOrder), lost, differs);
  const rows = new Map();

  function draw() {
    const side = store.sides[index];
    const { state, count } = store.seen(side);
    const now = store.now;
    const found = lanes(state, now, store.past ? undefined : (id) => side.hadRow.has(id) && !side.rows.has(id));
    setAttribute(el, "aria-label", side.driver);
    if (store.sides.length > 1 && what.dataset.told !== side.what) {
      what.dataset.told = side.what;
      what.replaceChildren(h("b", {}, side.driver), ` ${side.what}`);
    }
    for (const name of Object.keys(TITLES)) setText(counts[name], found[name].length.toLocaleString("en"));
    const effects = effectsOf(side, state, count);
    for (const name of Object.keys(SLOTS)) {
      const cards = found[name].slice(0, SLOTS[name]).map((seen) => card(seen, name, now, "", effects.get(seen)));
      stacks[name].draw(cards, found[name].length, TITLES[name].toLowerCase());
    }
    lost.hidden = !found.lost.length;
    if (found.lost.length) setText(lost, `Lost with the store: ${named(found.lost.map((seen) => seen.id))}`);
    drawWorkers(side, state, found.reserved, now);
    all.draw();
    retryAll.hidden = !found.failed.length;
    enable(retryAll, store.cannot);
    drawDifference(side, count);
  }

  function drawWorkers(side, state, reserved, now) {
    const names = side.seats.map((seat) => seat.name);
    if (reserved.some((job) => !names.includes(job.worker))) names.push("others");
    keyed(workers, names, (name) => name, makeRow, (row, name) => {
      const seat = store.past ? null : side.seats.find((one) => one.name === name);
      const hand = state.hands.get(name);
      const mine = reserved.filter((job) => job.worker === name || (name === "others" && !names.includes(job.worker)));
      const isHeld = (job) => name === "others" || (hand && hand.job === job.id && hand.attempt === job.attempts);
      const items = [...mine].sort((a, b) => isHeld(b) - isHeld(a)).map((job) => card(job, "reserved", now, isHeld(job) ? "" : "nobody works on it"));
      if (hand && !mine.some(isHeld)) items.unshift(ghost(state, hand, now));
      const away = awayOf(seat, state, name);
      setText(row.status, statusOf(seat, hand, away));
      setAttribute(row, "class", `worker ${away}`);
      row.stack.draw(items, items.length, `reserved by ${name}`);
      row.controls?.draw(seat, away);
    });
  }

  function makeRow(name) {
    const stack = cardList(store, 2, null);
    const status = h("span", { class: "status" });
    const number = Number(name.split(" ")[1]);
    const own = controls && number ? workerPart(store, number) : null;
    const row = h("div", own ? { role: "group", "aria-label": name } : {}, h("div", { class: "who" }, h("b", {}, name), status), stack.el, own?.el ?? null);
    rows.set(name, row);
    return Object.assign(row, { stack, status, controls: own });
  }

  function drawDifference(side, count) {
    const place = side.difference?.place;
    const shown = index > 0 && place !== undefined && place < count;
    const same = index > 0 ? `Same as ${store.first.driver} up to here: every event.` : "";
    setText(differs, shown ? `First difference, at event ${place + 1}: ${side.difference.why}` : same);
    setAttribute(differs, "class", `differs${shown ? " shown" : ""}`);
    setAttribute(el, "class", `side${shown ? " different" : ""}`);
  }
  return { el, draw };
}

/** Whether a worker is `crashed`, `paused`, or neither. */
function awayOf(seat, state, name) {
  if (!seat) return state.away.get(name) ?? "";
  return seat.gone ? "crashed" : seat.paused ? "paused" : "";
}

function statusOf(seat, hand, away) {
  if (away === "crashed") return "crashed";
  const does = hand ? (seat?.until != null ? `runs job ${hand.job}, until ${s(seat.until)}` : `holds job ${hand.job}`) : away ? "" : "free";
  return [away, does].filter(Boolean).join(", ");
}

const UNDO = {
  crashed: ["Restart", "start the worker again, with no job in hand"],
  paused: ["Resume", "let the worker go on with the job that it holds"],
};

/** The buttons of one worker. */
function workerPart(store, number) {
  const name = `worker ${number}`;
  const act = (text, verb, about, className = "") =>
    button(text, () => store.ask(verb, { worker: number }), { "aria-label": `${text} ${name}`, "data-about": about, class: `small ${className}` });
  const step = act("Step", "step", "reserve the next job, run its handler and complete it; or do that with the job that it holds", "primary");
  const reserve = act("Reserve", "reserve", "take the next job and stop there");
  const complete = act("Complete", "complete", "run the handler of the job that it holds, then tell the store that it is done, however late");
  const crash = act("Crash", "crash", "vanish with the job that it holds; the store is not told");
  const pause = button("Pause", () => store.ask(undo ? "resume" : "pause", { worker: number }), { class: "small pause" });
  let undo = "";
  const draw = (seat, away) => {
    undo = UNDO[away] ?? "";
    const cannot = store.cannot || (away && `${name} ${away === "crashed" ? "has crashed: restart" : "is paused: resume"} it first`);
    enable(step, cannot);
    enable(reserve, cannot || (seat?.held ? `${name} holds job ${seat.held[0]} already: complete it, or let the worker crash` : ""));
    enable(complete, cannot || (seat?.held ? "" : `${name} holds no job: let it reserve one first`));
    enable(crash, store.cannot || (away === "crashed" ? `${name} has crashed already` : ""));
    const [text, about] = undo || ["Pause", "stand still, with the job that it holds"];
    pause.dataset.about = about;
    enable(pause, store.cannot);
    setText(pause, text);
    setAttribute(pause, "aria-label", `${text} ${name}`);
  };
  return { el: h("div", { class: "buttons" }, step, reserve, complete, crash, pause), draw };
}

/** What is done to all workers at once. */
function crewPart(store) {
  const acts = [
    button("Step all", () => store.ask("step_all"), { class: "small", "data-about": "let every worker take one step" }),
    button("Restart process", () => store.ask("restart"),
      { class: "small", "data-about": "every worker loses what it holds; the memory driver forgets its jobs" }),
    button("Restart server", () => store.ask("restart_server"),
      { class: "small", "data-about": "kill the store's server and start it again; what it keeps in memory only is lost" }),
  ];
  const draw = () => {
    for (const act of acts) enable(act, store.cannot);
    acts[2].hidden = !store.sides.some((side) => side.server);
  };
  return { el: h("div", { class: "buttons all" }, ...acts), draw };
}

/** The workers' buttons on their own, where they move several drivers at once, or where there are many. */
function workersPart(store) {
  const grid = h("div", { class: "crew" });
  const all = crewPart(store);
  const draw = () => {
    all.draw();
    const side = store.first;
    keyed(grid, side.seats.map((seat) => seat.name), (name) => name, (name) => {
      const own = workerPart(store, Number(name.split(" ")[1]));
      return Object.assign(h("div", { role: "group", "aria-label": name, class: "one" }, h("b", {}, name), own.el), { own });
    }, (row, name) => {
      const seat = side.seats.find((one) => one.name === name);
      row.own.draw(seat, awayOf(seat));
    });
  };
  return { el: h("div", { class: "steps" }, grid, all.el), draw };
}

function headPart(store, help, more) {
  const title = h("span", { class: "title" });
  const badge = h("span", { class: "badge" });
  const clock = h("span", { class: "clock", role: "timer", "aria-label": "simulated clock" });
  const reset = button("Reset", () => store.ask("reset"), { class: "small", "data-about": "everything anew: the stores empty, the clock at 0" });
  const engine = h("span", { class: "engine" });
  const time = h("span", { class: "time" }, h("span", { class: "small-label", "aria-hidden": "true" }, "simulated clock"), clock);
  const el = h("div", { class: "top" }, title, badge, store.live ? reset : null, more, engine, help, time);
  const draw = () => {
    const { name, scenario, closed } = store.head;
    setText(title, scenario ? `qlab · ${scenario}` : !name || name === "lab" ? "qlab" : `qlab · ${name}`);
    setText(clock, store.running ? `${store.now.toFixed(1)} s` : s(store.now));
    setText(engine, store.sides.length === 1 ? store.first.what : "");
    setText(badge, closed ? "closed" : store.past ? "the past" : store.running ? "running" : store.slow ? "working …" : "");
    badge.hidden = !badge.textContent;
  };
  return { el, draw };
}

/** What has just happened, in words; what is wrong, first. */
function logPart(store) {
  const lines = h("ol", { class: "lines", "aria-label": "what happened" });
  const trouble = h("p", { class: "trouble", role: "alert" });
  const el = h("div", { class: "log" }, trouble, lines);
  const live = h("p", { class: "sr", role: "status", "aria-live": "polite" });
  let timer = 0, heard = store.heard;

  function shown() {
    if (!store.past) return store.log.slice(-4).reverse();
    const { events } = store.first;
    const told = (i) => events[i].kind !== "lost" || i + 1 === store.position || events[i + 1].kind !== "lost"; // the last one names all
    const places = [];
    for (let i = store.position - 1; i >= 0 && places.length < 4; i--) if (told(i)) places.push(i);
    return places.flatMap((i) => [...tellDoubles(store.first, i), { at: events[i].at, text: tell(events, i) }]).slice(0, 4);
  }
  function announce() {
    const latest = store.hint || store.head.problem || shown().slice(0, 3).reverse().map((line) => line.text).join(". ");
    setText(live, latest);
  }
  function draw() {
    const problem = store.quiet || store.head.problem || store.hint;
    setText(trouble, problem);
    setAttribute(trouble, "title", problem || null);
    trouble.hidden = !problem;
    const wrong = Boolean(store.quiet || store.head.problem);
    setAttribute(trouble, "class", wrong ? "trouble" : "trouble hint");
    setAttribute(el, "class", wrong ? "log wrong" : "log");
    const told = shown();
    if (!told.length) told.push({ at: null, text: "Dispatch a job. Step runs one at once; Reserve only takes it, so that you can see what happens in between. Time moves only when you move it." });
    while (lines.children.length < 4) lines.append(h("li", {}, h("span", { class: "at" }), h("span", {})));
    [...lines.children].forEach((line, i) => {
      setText(line.firstChild, told[i] && told[i].at !== null ? s(told[i].at) : "");
      setText(line.lastChild, told[i]?.text ?? "");
    });
    if (store.heard !== heard && !timer) timer = setTimeout(() => { timer = 0; heard = store.heard; announce(); }, 400);
  }
  return { el: h("div", {}, el, live), draw, close: () => clearTimeout(timer) };
}

function timePart(store) {
  const by = (n) => button(`+${n} s`, () => store.ask("advance", { seconds: n }), { "data-about": `let ${n} s go by; workers take no jobs` });
  const jump = button("Jump to next event", async () => {
    const { result } = await store.ask("jump");
    if (result) store.say(result);
  }, { "data-about": "let time go by up to the next moment at which anything changes" });
  const speed = h("select", {}, ...[1, 2, 5, 10, 30, 60].map((n) => h("option", { value: n, selected: n === 10 }, `${n} s per second`)));
  const run = button("Run", () => store.run(() => Number(speed.value)),
    { class: "primary", "data-about": "let time go by while every worker works by itself" });
  const stop = button("Stop", () => store.stop(), {});
  const acts = [by(1), by(10), by(60), jump];
  const el = group("Time", "time-row", ...acts, h("span", { class: "gap" }), field("Speed", speed, "inline"), run, stop);
  const draw = () => {
    for (const act of [...acts, run]) enable(act, store.cannot);
    if (store.running) enable(run, "it runs already");
    enable(stop, store.running ? "" : "it does not run");
  };
  return { el, draw };
}

function travelPart(store) {
  const range = h("input", { type: "range", min: "0", step: "1", oninput: () => store.look(Number(range.value)) });
  const where = h("span", { class: "where" });
  const place = () => store.position ?? store.length;
  const back = button("Step back", () => store.look(place() - 1));
  const forward = button("Step forward", () => store.look(place() + 1));
  const now = button("Now", () => store.look(null));
  const branch = button("Branch here", async () => {
    const from = place();
    const { result } = await store.ask("branch", { events: from });
    const why = `what happened next went on beyond event ${from} in one piece`;
    if (result < from) store.say(`The branch begins after event ${result}, as its name says: ${why}.`);
  }, { "data-about": "do what was done up to this moment in a second lab, which goes its own way" });
  const label = field("Time travel", range, "travel-range");
  const el = group("Travel", "travel", back, label, forward, now, store.live ? branch : null, where);
  const draw = () => {
    setAttribute(range, "max", store.length);
    if (Number(range.value) !== place()) range.value = place();
    setText(where, `event ${place()} of ${store.length}`);
    setAttribute(range, "aria-valuetext", `event ${place()} of ${store.length}, ${s(store.now)}`);
    enable(back, place() > 0 ? "" : "this is the beginning");
    enable(forward, place() < store.length ? "" : "this is now");
    enable(now, store.past ? "" : "this is now");
    enable(branch, store.head.closed ? store.cannot : "");
  };
  return { el, draw };
}

// -- what is folded away -----------------------------------------------------------------------------------------------

function policyPart(store) {
  const tries = h("input", { type: "number", min: "1", step: "1", placeholder: "no limit" });
  const backoff = h("input", { type: "text", placeholder: "0", autocomplete: "off" });
  const lasts = h("input", { type: "number", min: "0", step: "any", placeholder: "never ends" });
  const apply = button("Apply policy", () => {
    const list = backoff.value.split(/[\s,;]+/).filter(Boolean).map(Number);
    if (list.some(Number.isNaN)) return store.say(`Backoff (s) is "${backoff.value}": use seconds, as in 10, 60, 300`);
    return store.ask("change_policy", { tries: number(tries), backoff: list, retry_after: number(lasts) });
  }, { class: "primary" });
  const undo = button("Undo policy", () => store.ask("change_policy"));
  const number = (input) => (input.value === "" ? null : Number(input.value));
  const fields = [field("Tries", tries, "short"), field("Backoff (s)", backoff), field("Reservation (s)", lasts)];
  const el = details("Policy", group("Policy", "form-row", ...fields, apply, undo), aside(
    "How often a job is tried, how long it waits after a failed attempt, and after how long a reservation runs out. A reservation that is held keeps its end."));
  let shown = "";
  const draw = () => {
    const { policy, first_policy } = store.head;
    if (JSON.stringify(policy) !== shown) {
      shown = JSON.stringify(policy);
      tries.value = policy.tries ?? "";
      backoff.value = policy.backoff?.join(", ") ?? "";
      backoff.placeholder = policy.backoff ? "0" : "a function";
      lasts.value = policy.retry_after ?? "";
    }
    setText(el.note, first_policy ? "" : "changed");
    enable(apply, store.cannot);
    enable(undo, store.cannot ? store.cannot : first_policy ? "these are the first rules" : "");
  };
  return { el, draw };
}

function scenarioPart(store) {
  const pick = h("select", { onchange: () => draw() });
  const text = h("p", { class: "about" });
  const play = button("Play", async () => {
    if (!(await store.ask("play", { scenario: pick.value })).error) store.say("The scenario is laid out, from 0 s: press Run, or Jump to next event.");
  }, { class: "primary" });
  const el = details("Scenario", h("div", { class: "form-row" }, field("Scenario", pick), play), text);
  function draw() {
    keyed(pick, store.head.scenarios ?? [], ([name]) => name, ([name]) => h("option", { value: name }, name));
    setText(text, store.head.scenarios?.find(([name]) => name === pick.value)?.[1] ?? "");
    setText(el.note, store.head.scenario);
  }
  return { el, draw };
}

/** Ask again for what is shown, whenever it may have changed; one question at a time, and only while it is open. */
function asking(store, el, command, show, pause) {
  let asked = "", busy = false;
  const look = async () => {
    const present = `${store.layout} ${store.length} ${store.head.now}`;
    if (!el.open || busy || asked === present) return;
    [busy, asked] = [true, present];
    const began = performance.now();
    const answer = await store.ask(command);
    if (!answer.error) show(answer.result, answer.buffers);
    await new Promise((wake) => setTimeout(wake, Math.max(pause, performance.now() - began)));
    busy = false;
    look();
  };
  el.addEventListener("toggle", look);
  return look;
}

function statementsPart(store) {
  const columns = h("div", { class: "columns" });
  const el = details("Statements", aside("What the last action ran, on each driver."), columns);
  const one = (driver, [verb, , text, values]) => h("figure", {}, h("figcaption", {}, h("b", {}, verb), ` ${values}`),
    h("pre", { tabindex: "0", "aria-label": `${verb} on ${driver}` }, text.trim()));
  const none = (driver) => aside(driver === "memory" ? "The memory driver is plain Python: it runs no statement." : "It ran no statement.");
  const show = (told) => columns.replaceChildren(...told.map((list, i) => {
    const { driver } = store.sides[i];
    const shown = list.length ? list.map((statement) => one(driver, statement)) : [none(driver)];
    return h("div", { class: "statements" }, h("b", {}, list.length ? `${driver} · ${list[0][1]}` : driver), ...shown);
  }));
  return { el, draw: asking(store, el, "statements", show, 100) };
}

/** What the jobs did to the world, however often they ran. */
function ledgerPart(store) {
  const body = h("div", { class: "columns" });
  const el = details("Ledger", aside("Each run of a handler that returns is entered as a side effect: its payload's amount, or 1."), body);
  const draw = () => {
    const told = store.sides.map((side) => ledger(side.ledger, store.past ? store.seen(side).count : Infinity));
    const { entries, balance, expected, twice } = told[0];
    setText(el.note, entries.length ? `${balance}, expected ${expected}${twice.length ? ` · twice: ${named(twice)}` : ""}` : "");
    setAttribute(el.note, "class", `note${twice.length ? " alarm" : ""}`);
    if (el.open) body.replaceChildren(...told.map((one, i) => sheet(one, store.sides.length > 1 ? store.sides[i].driver : "")));
  };
  el.addEventListener("toggle", draw);
  return { el, draw };
}

/** Sum up a ledger as far as so many events have happened: `[at, job, amount, worker, events, effect]` each. */
export function ledger(all, count = Infinity) {
  const entries = all.filter((entry) => entry[4] < count);
  const sum = (some) => some.reduce((total, entry) => total + entry[2], 0);
  const twice = [...new Set(entries.filter(isDouble).map((entry) => entry[1]))].sort((a, b) => a - b);
  return { entries, balance: sum(entries), expected: sum(entries.filter((entry) => !isDouble(entry))), twice };
}

function sheet({ entries, balance, expected, twice }, driver) {
  const rows = entries.slice(-10).map(([at, job, amount, worker, , effect]) => [s(at), `job ${job}`, amount, worker, effect > 1 ? `took effect ${times(effect)}` : ""]);
  const verdict = !entries.length ? "Nothing has been entered yet." : twice.length
    ? `The balance is ${balance}, expected ${expected}: ${named(twice)} took effect more than once.` : `The balance is ${balance}, as expected.`;
  return h("div", {}, driver && h("b", {}, driver), h("p", { class: twice.length ? "verdict alarm" : "verdict" }, verdict),
    entries.length ? table(["at", "job", "amount", "worker", "remark"], rows, entries.length > 10 ? "the last 10" : "") : null);
}

function table(columns, rows, caption = "") {
  return h("table", {}, caption && h("caption", {}, caption), h("thead", {}, h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((value) => h("td", {}, value instanceof Node ? value : String(value)))))));
}

/** Pictures that the kernel draws with qlab.plots: while this is open, at most four times a second. */
function plotsPart(store) {
  const place = h("div", { class: "pictures" });
  const el = details("Plots", place);
  let urls = [];
  const frame = () => place.appendChild(h("figure", {}, h("img"), h("figcaption", { "aria-hidden": "true" })));
  const put = (captions, sources) => {
    captions.forEach((about, i) => {
      const [image, caption] = (place.children[i] ?? frame()).children;
      Object.assign(image, { alt: about, src: sources[i] });
      setText(caption, about);
    });
    while (place.children.length > captions.length) place.lastChild.remove();
  };
  const show = (captions, buffers) => {
    urls.forEach((url) => URL.revokeObjectURL(url));
    urls = buffers.map((data) => URL.createObjectURL(new Blob([data], { type: "image/png" })));
    put(captions, urls);
  };
  const kept = store.head.pictures;
  if (kept) put(kept.map(({ about }) => about), kept.map(({ data }) => `data:image/png;base64,${data}`));
  return { el, draw: kept ? () => {} : asking(store, el, "plots", show, 250), close: () => urls.forEach((url) => URL.revokeObjectURL(url)) };
}

const COLUMNS = [
  ["job", "id"], ["handler", "name"], ["state", "where"], ["attempts", "attempts"], ["available at", "available_at"],
  ["worker", "worker"], ["last said", "detail"],
];
const ROWS = 100;

function jobsPart(store) {
  let [by, up] = ["id", true], chosen = null;
  const filter = h("select", { onchange: () => draw() }, ...["all", ...Object.keys(TITLES), "lost"].map((name) => h("option", { value: name }, name)));
  const side = h("select", { onchange: () => draw() });
  const driver = field("Driver", side);
  const sort = (key) => {
    [by, up] = [key, by === key ? !up : true];
    draw();
  };
  const heads = COLUMNS.map(([title, key]) => h("th", { scope: "col" }, button(title, () => sort(key), { class: "sort" })));
  const body = h("tbody", {}), count = h("p", { class: "about", role: "note" }), payload = h("pre", { tabindex: "0", "aria-label": "payload", hidden: true });
  const el = details("Jobs", h("div", { class: "form-row" }, field("State", filter), driver, count), payload,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table of jobs" },
      h("table", { class: "jobs" }, h("thead", {}, h("tr", {}, ...heads)), body)));

  async function open(id) {
    chosen = id;
    const i = Math.max(0, side.selectedIndex);
    const kept = store.head.payloads?.[i];
    const text = store.live ? (await store.ask("payload", { side: i, job: id })).result : kept[id] ?? "its store had deleted the job, and its payload with it";
    payload.hidden = chosen !== id;
    setText(payload, `payload of job ${id}: ${text}`);
  }
  function draw() {
    const { length } = known(store.first.state);
    setText(el.note, length ? length.toLocaleString("en") : "");
    keyed(side, store.sides.map((one) => one.driver), (name) => name, (name) => h("option", { value: name }, name));
    driver.hidden = store.sides.length < 2;
    if (!el.open) return;
    const { state } = store.seen(store.sides[Math.max(0, side.selectedIndex)]);
    const all = known(state).map((seen) => ({ ...seen, where: stateOf(seen, store.now) }))
      .filter((job) => filter.value === "all" || job.where === filter.value);
    all.sort((a, b) => (a[by] < b[by] ? -1 : a[by] > b[by] ? 1 : a.id - b.id) * (up ? 1 : -1));
    heads.forEach((head, i) => setAttribute(head, "aria-sort", COLUMNS[i][1] === by ? (up ? "ascending" : "descending") : null));
    setText(count, all.length > ROWS ? `the first ${ROWS} of ${all.length.toLocaleString("en")} jobs` : jobs(all.length));
    keyed(body, all.slice(0, ROWS), (job) => `${job.id} ${job.born}`, (job) => {
      const id = button(String(job.id), () => open(job.id), { class: "link", "aria-label": `Payload of job ${job.id}` });
      return h("tr", {}, h("td", {}, id), ...COLUMNS.slice(1).map(() => h("td", {})));
    }, (row, job) => {
      const available = job.settled ? "–" : s(job.available_at);
      const told = [job.name, job.where, job.attempts, available, job.worker || "–", job.detail || "–"];
      told.forEach((text, i) => setText(row.children[i + 1], text));
    });
  }
  el.addEventListener("toggle", draw);
  return { el, draw };
}

const TYPES = { csv: "text/csv", html: "text/html", svg: "image/svg+xml", png: "image/png", parquet: "application/vnd.apache.parquet" };

function filesPart(store) {
  const save = async () => {
    const { result } = await store.ask("save");
    if (result) download("lab.json", [result], "application/json");
  };
  const file = h("input", { type: "file", accept: ".json,application/json", hidden: true, "aria-label": "saved lab", onchange: load });
  async function load() {
    if (file.files[0]) await store.ask("load", { text: await file.files[0].text() });
    file.value = "";
  }
  const fetch = async (form) => {
    const { buffers, error } = await store.ask("export", { form });
    if (!error) download(`lab.${form}`, buffers, TYPES[form] ?? "");
  };
  const keep = () => download("lab.csv", [csv(store.sides)], TYPES.csv);
  const title = (form) => (form === "parquet" ? "Parquet" : form.toUpperCase());
  const forms = (store.live ? store.head.forms : ["csv"]).map((form) =>
    button(title(form), store.live ? () => fetch(form) : keep, { "aria-label": `Export ${title(form)}` }));
  const lab = [button("Save", save, { "data-about": "what was done, as JSON; Load does it again" }), button("Load", () => file.click()), file];
  const el = details("Files", store.live && group("Lab", "form-row", ...lab), group("Export", "form-row", ...forms), aside(
    "CSV and Parquet hold the events, SVG and PNG the timeline; HTML is this board as one page, which needs no kernel and no network."));
  return { el, draw() {} };
}

/** Write events as CSV; a text that a spreadsheet would read as a formula gets a leading quote. */
export function csv(sides) {
  const names = ["driver", "at", "kind", "job", "name", "attempt", "worker", "since", "until", "detail"];
  const cell = (value) => {
    const text = value === null ? "" : value === Infinity ? "inf" : typeof value === "string" && /^[=+\-@\p{C}]/u.test(value) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const rows = sides.flatMap((side) => side.events.map((event) => names.map((name) => cell(name === "driver" ? side.driver : event[name])).join(",")));
  return [names.join(","), ...rows, ""].join("\n");
}

/** The boards of branches, below the one that they were branched off. */
function branchesPart(store) {
  const el = h("div", { class: "branches" });
  const ends = new Map();
  const make = ([id, name]) => {
    const box = h("section", { class: "qlab-branch", "aria-label": name });
    show(id, name, box);
    return box;
  };
  const show = async (id, name, box) => {
    try {
      const own = storeOf(await store.model.widget_manager.get_model(id));
      const end = draw(own, box, button("Close branch", () => store.ask("close_branch", { branch: id }), { class: "small" }));
      ends.set(id, () => { end(); release(own); });
    } catch {
      box.append(`The branch is there, but this page cannot show it here: in a cell, the last of board.branches shows it ("${name}").`);
    }
  };
  const drawBranches = () => {
    const wanted = store.head.branches ?? [];
    for (const [id, end] of ends) if (!wanted.some(([one]) => one === id)) { end(); ends.delete(id); }
    keyed(el, wanted, ([id]) => id, make);
  };
  return { el, draw: drawBranches, close: () => ends.forEach((end) => end()) };
}

// -- the board ---------------------------------------------------------------------------------------------------------

/** Let cards glide from where they were to where they are; not for those who asked for less motion. */
function glide(root, change) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches || !root.isConnected;
  const before = new Map(calm ? [] : [...root.querySelectorAll(":scope > .side .job")].map((el) => [nameOf(el), el.getBoundingClientRect()]));
  change();
  if (calm) return;
  for (const el of root.querySelectorAll(":scope > .side .job")) {
    const from = before.get(nameOf(el));
    if (!from) { if (before.size) el.animate([{ opacity: 0 }, { opacity: 1 }], 200); continue; }
    const to = el.getBoundingClientRect();
    const [x, y] = [from.left - to.left, from.top - to.top].map((by) => by / (el.currentCSSZoom ?? 1));
    const far = Math.abs(x) + Math.abs(y) > 1;
    if (far) el.animate([{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }], { duration: 280, easing: "ease-out" });
  }
}
const nameOf = (el) => `${el.closest(".side").getAttribute("aria-label")} ${el.classList.contains("late")} ${el.jobId.textContent}`;

const HELP = [
  ["Tab", "goes from control to control, Enter and Space press a button"],
  ["← →", "in Time travel: one event back or forward; Home and End: the beginning and now"],
  ["Enter", "in Payload: dispatch"],
  ["?", "shows this, Esc hides it"],
];

function helpPart() {
  const lines = HELP.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]);
  const panel = h("dl", { class: "help", hidden: true, id: newId("help") }, ...lines);
  const toggle = button("?", () => show(panel.hidden), { "aria-label": "Key help", "aria-expanded": "false", "aria-controls": panel.id, class: "small round" });
  const show = (on) => { panel.hidden = !on; toggle.setAttribute("aria-expanded", String(on)); };
  const keys = (event) => {
    // The notebook's command keys (a, x, d d) must not reach it; its shortcuts with Ctrl or Meta, such as saving, may.
    if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
    if (event.key === "Control" || event.key === "Meta") event.target.removeAttribute(SUPPRESS);
    const types = event.target.matches("input:not([type=range]), textarea, select");
    if (event.key === "?" && !types) show(panel.hidden);
    if (event.key === "Escape" && !panel.hidden) show(false);
  };
  return { panel, toggle, keys };
}

/** Build anew what is in an element, and leave open what was open, and the focus where it was. */
function keepPlace(root, build) {
  const mark = (el) => `${el.tagName} ${el.getAttribute("aria-label") ?? el.textContent}`;
  const open = [...root.querySelectorAll("details[open]")].map((el) => el.className);
  const focus = root.contains(document.activeElement) ? mark(document.activeElement) : null;
  build();
  for (const el of root.querySelectorAll("details")) if (open.includes(el.className)) el.open = true;
  if (focus) [...root.querySelectorAll(FOCUSABLE.join())].find((el) => mark(el) === focus)?.focus();
}

/** Draw a board for a store into an element; returns what ends it. */
function draw(store, el, more = null) {
  const help = helpPart();
  const root = h("div", { class: "qlab", role: "group" });
  root.addEventListener("keydown", help.keys);
  for (const over of ["keyup", "focusout"]) {
    root.addEventListener(over, ({ target }) => { if (target.matches(FOCUSABLE.join())) target.setAttribute(SUPPRESS, "true"); });
  }
  root.addEventListener("qlab-why", (event) => {
    event.stopPropagation(); // a branch's board is inside this one
    store.say(event.detail);
  });
  let parts = [], shape = "";

  const several = () => store.sides.length > 1 || store.first.seats.length > 4;

  function build() {
    for (const part of parts) part.close?.();
    const live = store.live;
    const time = timePart(store);
    const sides = store.sides.map((_, i) => sidePart(store, i, several()));
    const crew = live && several() ? workersPart(store) : null;
    const head = headPart(store, help.toggle, more), log = logPart(store), travel = travelPart(store);
    const dispatch = live && dispatchPart(store);
    const folded = [...(live ? [policyPart, scenarioPart, statementsPart] : []), ledgerPart, plotsPart, jobsPart, filesPart]
      .map((part) => part(store));
    const branches = live && branchesPart(store);
    parts = [head, dispatch, ...sides, crew, log, live && time, travel, ...folded, branches].filter(Boolean);
    const below = h("div", { class: "folded" }, ...folded.map((part) => part.el));
    const shown = [head, { el: help.panel }, dispatch, ...sides, crew, log, live && time, travel, { el: below }, branches];
    root.replaceChildren(...shown.filter(Boolean).map((part) => part.el));
  }
  function update() {
    if (!store.first) return;
    const present = `${store.sides.length} ${several()}`;
    if (present !== shape) { shape = present; keepPlace(root, build); }
    setAttribute(root, "aria-label", `qlab board, ${store.head.name}, on ${store.sides.map((side) => side.driver).join(", ")}`);
    setAttribute(root, "class", `qlab${store.past ? " past" : ""}${several() ? " several" : ""}${store.live ? "" : " kept"}`);
    glide(root, () => { for (const part of parts) part.draw(); });
  }
  const place = h("div", { class: "qlab-place" }, root);
  el.append(place);
  store.views.add(update);
  update();
  return () => {
    store.views.delete(update);
    for (const part of parts) part.close?.();
    place.remove();
  };
}

/** Show a lab that somebody kept as a page: the same board, without a kernel. */
export function mount(el, told) {
  return draw(new Store(null, told), el);
}

/** Hide what stands for a board where it cannot live, for as long as it lives here. */
function hideStill(key) {
  const still = `#qlab-still-${key}`;
  const style = h("style", { "data-qlab-still": key }, `${still}, .jp-OutputArea-child:has(> * ${still}) { display: none; }`);
  document.head.append(style);
  return () => style.remove();
}

function initialize({ model }) {
  const store = storeOf(model), show = hideStill(model.get("told").board);
  return () => { show(); release(store); };
}

function render({ model, el }) {
  const store = storeOf(model);
  const end = draw(store, el);
  return () => { end(); release(store); };
}

export default { initialize, render };
