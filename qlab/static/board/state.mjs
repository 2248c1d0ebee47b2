// Events, and the state at any moment: `reduce` turns events into it just as Python's `Trace.at` does.

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
export const known = (state) => [...state.before, ...state.jobs.values()];

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
