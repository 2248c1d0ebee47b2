// What happened, in words, and why.

/** Show seconds for people, as `qlab.show.seconds` does. */
export function s(value) {
  if (value === null || value === undefined) return "–";
  if (value === Infinity) return "never";
  return value.toFixed(Math.abs(value) >= 0.1 ? 3 : 6).replace(/\.?0+$/, "") + " s";
}

export const about = (value) => (value === Infinity ? "∞" : s(value >= 10 ? Math.round(value) : Math.round(value * 10) / 10));

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
export const named = (ids) => `job${ids.length > 1 ? "s" : ""} ${ids.slice(0, 5).join(", ")}${ids.length > 5 ? ` and ${(ids.length - 5).toLocaleString("en")} more` : ""}`;

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
