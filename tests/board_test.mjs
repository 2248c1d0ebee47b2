// The board's front end without a page: Node's own test runner, `node --test tests/board_test.mjs`.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import board from "../qlab/static/board/widget.mjs";
import { jobsADot } from "../qlab/static/board/cards.mjs";
import { notJson } from "../qlab/static/board/dispatch.mjs";
import { ledger, tellDoubles } from "../qlab/static/board/ledger.mjs";
import { csv } from "../qlab/static/board/records.mjs";
import { at, cut, empty, KINDS, lanes, reduce, stateOf, unpack } from "../qlab/static/board/state.mjs";
import { Store } from "../qlab/static/board/store.mjs";
import { s, tell, tellTime } from "../qlab/static/board/words.mjs";

const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const vectors = readdirSync(new URL("vectors", import.meta.url)).filter((name) => name.startsWith("trace_"));
const load = (name) => JSON.parse(read(`vectors/${name}`));
const traceOf = (vector) => unpack(vector.events, vector.events.texts);

const job = (seen, moment) => [seen.id, seen.name, seen.attempts, seen.available_at, seen.worker, seen.reserved, seen.settled, seen.detail, stateOf(seen, moment)];
const known = (state) => [...state.before, ...state.jobs.values()];
const count = (state, moment, where) => known(state).filter((seen) => stateOf(seen, moment) === where).length;

for (const name of vectors) {
  test(`${name}: the state at every moment is Python's`, () => {
    const vector = load(name);
    const events = traceOf(vector);
    for (const moment of vector.moments) {
      const state = at(events, moment.at);
      assert.deepEqual(known(state).map((seen) => job(seen, moment.at)), moment.jobs);
      assert.deepEqual(["ready", "delayed", "reserved", "failed"].map((where) => count(state, moment.at, where)), moment.counts);
    }
  });

  test(`${name}: event by event comes to the same as at once`, () => {
    const events = traceOf(load(name));
    const state = empty();
    for (const event of events) reduce(state, event);
    assert.deepEqual(known(state), known(at(events, 1e6)));
  });

  test(`${name}: every event has words, and no gap in them`, () => {
    const events = traceOf(load(name));
    for (let i = 0; i < events.length; i++) assert.doesNotMatch(tell(events, i), /undefined|null|NaN|\(\)|^\s*$/);
  });
}

test("the vectors have every kind that a lab can show", () => {
  const seen = new Set(vectors.flatMap((name) => traceOf(load(name)).map((event) => event.kind)));
  assert.deepEqual(KINDS.filter((kind) => !seen.has(kind)), ["recovered", "cleared", "blocked"]);
});

test("seconds are shown as Python shows them", () => {
  for (const [value, text] of JSON.parse(read("vectors/seconds.json"))) assert.equal(s(value), text);
  assert.equal(s(Infinity), "never");
  assert.equal(s(null), "–");
});

const event = (kind, more = {}) => ({ at: 0, kind, job: 1, name: "pay", attempt: 0, worker: "", since: null, until: null, detail: "", ...more });

test("a late worker keeps its job in hand until it is told", () => {
  const state = empty();
  const story = [
    event("dispatched", { until: 0 }), event("reserved", { attempt: 1, worker: "worker 1", until: 90 }),
    event("expired", { at: 95, attempt: 1, worker: "worker 2", until: 90 }), event("reserved", { at: 95, attempt: 2, worker: "worker 2", since: 90, until: 185 }),
    event("completed", { at: 95, attempt: 2, worker: "worker 2" }), event("superseded", { at: 100, attempt: 1, worker: "worker 1", detail: "complete" }),
  ];
  for (const one of story.slice(0, 5)) reduce(state, one);
  assert.deepEqual([...state.hands.keys()], ["worker 1"]);
  assert.equal(tell(story, 3), "job 1: reserved again by worker 2 until 185 s, because worker 1's reservation ran out at 90 s");
  reduce(state, story[5]);
  assert.equal(state.hands.size, 0);
  assert.match(tell(story, 5), /too late to complete it, because worker 2 reserved it at 95 s/);
});

/** Put a story's events into words. */
const words = (story) => story.map((_, i) => tell(story, i));

test("a crash, a pause and a resume are told with what the worker has in hand", () => {
  const w = { attempt: 1, worker: "worker 1" };
  const none = { job: null, name: "", worker: "worker 2" };
  const story = [
    event("dispatched", { until: 0 }), event("reserved", { ...w, until: 90 }), event("paused", w), event("resumed", { ...w, detail: "after a pause" }),
    event("extended", { ...w, until: 180 }), event("paused", w), event("resumed", { ...w, at: 200, detail: "after a pause" }), event("crashed", { ...w, at: 200 }),
    event("resumed", { worker: "worker 1", job: null, at: 200, detail: "after a crash" }),
    event("paused", none), event("resumed", { ...none, detail: "after a pause" }), event("crashed", none), event("resumed", { ...none, detail: "after a crash" }),
    event("restarted", { job: null, detail: "process" }),
  ];
  assert.deepEqual(words(story).slice(2), [
    "worker 1 is paused with job 1 in hand; its reservation still runs out at 90 s",
    "worker 1 resumed with job 1 in hand; its reservation runs out at 90 s",
    "job 1: worker 1 extended its reservation, until 180 s",
    "worker 1 is paused with job 1 in hand; its reservation still runs out at 180 s",
    "worker 1 resumed with job 1 in hand; its reservation ran out at 180 s",
    "worker 1 crashed with job 1 in hand; the store is not told, and its reservation ran out at 180 s",
    "worker 1 was restarted and knows nothing of job 1; its reservation ran out at 180 s",
    "worker 2 is paused with no job in hand; it takes none until it is resumed",
    "worker 2 resumed with no job in hand; it may take one again",
    "worker 2 crashed with no job in hand; nothing is lost",
    "worker 2 was restarted: it may take a job again",
    "the process was restarted: every worker is there again, with no job in hand",
  ]);
});

test("who is away is known at any moment, and changes no job", () => {
  const state = empty();
  for (const one of [event("dispatched", { until: 0 }), event("reserved", { attempt: 1, worker: "a", until: 90 })]) reduce(state, one);
  const before = structuredClone(state.jobs);
  reduce(state, event("paused", { attempt: 1, worker: "a" }));
  reduce(state, event("crashed", { job: null, worker: "b" }));
  assert.deepEqual([...state.away], [["a", "paused"], ["b", "crashed"]]);
  assert.equal(state.hands.size, 1);
  reduce(state, event("resumed", { job: null, worker: "b" }));
  assert.deepEqual([...state.away.keys()], ["a"]);
  reduce(state, event("restarted", { job: null, detail: "process" }));
  assert.deepEqual([[...state.away], state.jobs], [[], before]);
});

test("a crash empties the hand, not the lane", () => {
  const state = empty();
  for (const one of [event("dispatched", { until: 0 }), event("reserved", { attempt: 1, worker: "w", until: 90 }), event("crashed", { attempt: 1, worker: "w" })]) reduce(state, one);
  assert.equal(state.hands.size, 0);
  assert.equal(lanes(state, 10).reserved[0].id, 1);
  assert.equal(lanes(state, 90).ready[0].id, 1);
});

test("a lost job is in no lane, and is named with all that were lost with it", () => {
  const state = empty();
  const jobs = [1, 2, 3, 4, 5, 6, 7];
  const story = [
    ...jobs.map((id) => event("dispatched", { job: id, until: 0 })), event("reserved", { attempt: 1, worker: "w", until: 90 }),
    event("restarted", { job: null, detail: "server", at: 5 }), ...jobs.map((id) => event("lost", { job: id, at: 5 })),
    event("superseded", { attempt: 1, worker: "w", detail: "complete", at: 6 }), event("lost", { job: 8, detail: "somebody took it" }),
  ];
  for (const one of story) reduce(state, one);
  assert.deepEqual([lanes(state, 5).ready, lanes(state, 5).reserved, lanes(state, 5).lost.map((seen) => seen.id).sort()], [[], [], jobs]);
  assert.equal(tell(story, 9), "job 1 is lost: the server kept it in memory only");
  assert.equal(tell(story, 11), "jobs 1, 2, 3 are lost: the server kept them in memory only");
  assert.equal(tell(story, 15), "jobs 1, 2, 3, 4, 5 and 2 more are lost: the server kept them in memory only");
  assert.match(tell(story, 16), /^job 1: w came too late to complete it, because it was lost at 5 s; the store changed nothing, but its handler did run: what that did stays done$/);
  assert.equal(tell(story, 17), "job 8 is lost: somebody took it");
});

test("jobs whose ids a new store gives again are kept apart", () => {
  const state = empty();
  const life = (more) => [event("dispatched", { until: 0 }), event("reserved", { attempt: 1, worker: "w", until: 90 }), event("failed", { attempt: 1, detail: "boom" }), ...more];
  for (const one of [...life([]), ...life([]), event("dispatched", { until: 0 })]) reduce(state, one);
  assert.deepEqual([lanes(state, 0).failed.length, lanes(state, 0).ready.length], [2, 1]);
  reduce(state, event("retried", { detail: "failed job 2" }));
  assert.deepEqual([lanes(state, 0).failed.length, lanes(state, 0).ready.length], [1, 1]);
});

test("a failed job leaves its lane when it is retried or forgotten, or when its store has lost it", () => {
  const state = empty();
  for (const id of [1, 2, 3, 4]) for (const one of [event("dispatched", { job: id, until: 0 }), event("failed", { job: id, attempt: 1, detail: "boom" })]) reduce(state, one);
  reduce(state, event("retried", { job: 1, detail: "failed job 11" }));
  reduce(state, event("forgotten", { job: 2, detail: "failed job 12" }));
  assert.deepEqual(lanes(state, 0).failed.map((seen) => seen.id), [4, 3]);
  assert.deepEqual(lanes(state, 0, (id) => id === 4).failed.map((seen) => seen.id), [3]);
});

test("what comes first in ready is what is reserved next", () => {
  const state = empty();
  for (const [id, until] of [[1, 5], [2, 0], [3, 0]]) reduce(state, event("dispatched", { job: id, until }));
  assert.deepEqual(lanes(state, 5).ready.map((seen) => seen.id), [2, 3, 1]);
});

test("time alone has words", () => {
  const state = empty();
  reduce(state, event("dispatched", { until: 30 }));
  assert.deepEqual(tellTime(state, 0, 30), [{ at: 30, text: "job 1: ready, because its delay ended at 30 s" }]);
  assert.deepEqual(tellTime(state, 30, 60), []);
});

test("a position among the first driver's events finds the others'", () => {
  const first = [0, 0, 10, 20].map((moment) => ({ at: moment }));
  assert.deepEqual([0, 1, 2, 3, 4].map((place) => cut(first, first.slice(), place)), [0, 1, 2, 3, 4]);
  const more = [0, 0, 5, 10, 20, 20].map((moment) => ({ at: moment }));
  assert.deepEqual([0, 1, 2, 3, 4].map((place) => cut(first, more, place)), [0, 1, 2, 4, 6]);
});

test("a ledger names what took effect twice", () => {
  const entries = [[0, 1, 10, "a", 1, 1], [5, 1, 10, "b", 3, 2], [6, 2, 7, "b", 5, 1]];
  const { balance, expected, twice } = ledger(entries);
  assert.deepEqual([balance, expected, twice], [27, 17, [1]]);
  assert.equal(ledger(entries, 3).balance, 10);
});

test("a job of a new store is no double of one that had its id", () => {
  assert.deepEqual(ledger([[0, 1, 10, "a", 1, 1], [5, 1, 10, "b", 3, 1]]).twice, []);
});

test("that a job ran once more is told with who did so when", () => {
  const entries = [[0, 1, 10, "a", 1, 1], [5, 1, 10, "b", 3, 2], [6, 2, 7, "b", 5, 1], [7, 1, 10, "", 7, 3]];
  const side = { ledger: entries, doubles: entries.filter((entry) => entry[5] > 1) };
  assert.deepEqual([0, 1, 3, 7].flatMap((place) => tellDoubles(side, place)), [
    { at: 5, text: "job 1 ran twice: a's run took effect at 0 s, b's again at 5 s; the balance is 20, expected 10" },
    { at: 7, text: "job 1 ran 3 times: b's run took effect at 5 s, a worker's again at 7 s; the balance is 37, expected 17" },
  ]);
});

test("what another driver than the first has lost has a line, too", () => {
  const told = message(1, 0, [1]);
  const other = (jobs) => ({ ...message(1, 0, jobs).sides[0], driver: "redis" });
  const store = new Store(fake(), { ...told, sides: [told.sides[0], other([1, 2])] });
  const lost = (from, jobs) => ({ ...pieces(from, jobs), kind: jobs.map(() => KINDS.indexOf("lost")) });
  store.absorb({ ...message(2, 1, []), sides: [message(2, 1, []).sides[0], { ...other([]), events: lost(2, [1, 2]) }] });
  assert.match(store.log.at(-1).text, /^redis: jobs 1, 2 are lost/);
  assert.equal(store.log.filter((line) => line.lost).length, 1);
  assert.deepEqual(lanes(store.sides[1].state, 0).lost.length, 2);
  assert.equal(store.first.state.jobs.get(1).settled, null);
  store.close();
});

test("that only another driver's server was restarted has a line, too", () => {
  const told = message(1, 0, [1]);
  const other = (jobs) => ({ ...message(1, 0, jobs).sides[0], driver: "redis" });
  const store = new Store(fake(), { ...told, sides: [told.sides[0], other([1])] });
  const events = { ...pieces(1, [null]), kind: [KINDS.indexOf("restarted")] };
  const detail = (text) => ({ ...events, texts: [text], detail: [store.sides[1].texts.length], texts_from: store.sides[1].texts.length });
  store.absorb({ ...message(2, 1, []), sides: [message(2, 1, []).sides[0], { ...other([]), events: detail("server") }] });
  assert.equal(store.log.at(-1).text, "redis: the server was restarted");
  store.close();
});

test("the latest line says that a job ran twice, now and in the past", () => {
  const store = new Store(fake(), message(1, 0, [1]));
  const twice = message(2, 1, [2]);
  twice.sides[0].ledger = [[0, 1, 10, "a", 1, 1], [0, 1, 10, "b", 1, 2]];
  store.absorb(twice);
  assert.match(store.log.at(-1).text, /^job 1 ran twice: a's run/);
  store.close();
});

test("a payload is checked as it is typed", () => {
  assert.equal(notJson(""), "");
  assert.equal(notJson('{"amount": 10}'), "");
  assert.match(notJson("hello"), /Text goes in quotes: "hello"/);
  assert.match(notJson('{"amount": '), /^Not JSON/);
  for (const text of ["{amount: 10}", "{'amount': 10}", '{"amount": 10, to: 3}']) assert.match(notJson(text), /go in double quotes/, text);
  assert.match(notJson('{"gift": True}'), /true, false and null/);
  for (const text of ['{"to": "Ann, Bob\'s', '[true, false', '{"is": "None"', "{"]) assert.match(notJson(text), /\.$/, text);
});

test("no text of a CSV is a formula", () => {
  const text = csv([{ driver: "sqlite", events: [event("released", { detail: '=1+1,"x"', until: Infinity })] }]);
  assert.equal(text.split("\n")[1], 'sqlite,0,released,1,pay,0,,,inf,"\'=1+1,""x"""');
});

// -- what the kernel tells --

const nothing = () => ({ from: 0, texts_from: 0, texts: [], at: [], kind: [], job: [], name: [], attempt: [], worker: [], since: [], until: [], detail: [] });
const pieces = (from, jobs) => ({
  from, texts_from: from ? 2 : 0, texts: from ? [] : ["", "pay"], at: jobs.map(() => 0), kind: jobs.map(() => 0), job: jobs, name: jobs.map(() => 1),
  attempt: jobs.map(() => 0), worker: jobs.map(() => 0), since: jobs.map(() => null), until: jobs.map(() => 0), detail: jobs.map(() => 0),
});
const message = (number, from, jobs, more = {}) => ({
  type: "told", layout: 1, number, head: { now: 0 }, answer: null,
  sides: [{ events: jobs ? pieces(from, jobs) : nothing(), ledger: [], ledger_from: 0, driver: "memory", seats: [], failed: [], difference: null }], ...more,
});

function fake() {
  const model = { sent: [], on: (_, listen) => { model.hear = listen; }, off: () => { model.hear = null; }, send: (content) => model.sent.push(content) };
  return model;
}
const jobsOf = (store) => store.first.events.map((one) => one.job);

test("pieces are put together, and what is known already adds nothing", () => {
  const store = new Store(fake(), message(3, 0, [1, 2]));
  store.absorb(message(4, 2, [3]));
  store.absorb(message(4, 2, [3]));
  store.absorb(message(5, 1, [2, 3, 4]));
  assert.deepEqual(jobsOf(store), [1, 2, 3, 4]);
  store.close();
});

test("after a gap everything is asked for", () => {
  const model = fake();
  const store = new Store(model, message(1, 0, [1]));
  store.absorb(message(4, 5, [6]));
  assert.deepEqual(jobsOf(store), [1]);
  assert.deepEqual(model.sent.map((one) => one.cmd), ["sync", "sync"]);
  store.absorb(message(4, 0, [1, 2, 3, 4, 5, 6], { whole: true }));
  store.absorb(message(5, 6, [7]));
  assert.deepEqual(jobsOf(store), [1, 2, 3, 4, 5, 6, 7]);
  store.close();
});

test("a new layout begins anew", () => {
  const store = new Store(fake(), message(1, 0, [1, 2]));
  store.look(1);
  store.absorb(message(2, 0, [1], { layout: 2 }));
  assert.deepEqual([jobsOf(store), store.past], [[1], false]);
  store.close();
});

test("the past is looked at without the kernel", () => {
  const model = fake();
  const store = new Store(model, message(1, 0, [1, 2, 3]));
  const asked = model.sent.length;
  store.look(1);
  assert.equal(store.seen(store.first).state.jobs.size, 1);
  store.look(2);
  assert.equal(store.seen(store.first).state.jobs.size, 2);
  store.look(0);
  assert.equal(store.seen(store.first).state.jobs.size, 0);
  store.look(99);
  assert.equal(store.past, false);
  assert.equal(model.sent.length, asked);
  store.close();
});

test("a run has one message in flight, and Stop is told at once", async () => {
  globalThis.document = { hidden: false };
  const model = fake();
  const store = new Store(model, message(1, 0, [1]));
  store.views.add(() => {});
  const running = store.run(() => 10);
  const runs = () => model.sent.filter((one) => one.cmd === "run");
  await new Promise((wake) => setTimeout(wake, 250));
  assert.equal(runs().length, 1);
  store.absorb(message(2, 1, [2], { answer: { id: runs()[0].id } }));
  await new Promise((wake) => setTimeout(wake, 250));
  assert.equal(runs().length, 2);
  store.stop();
  assert.deepEqual(model.sent.at(-1), { cmd: "stop", args: { run: runs()[0].args.run } });
  store.absorb(message(3, 2, [3], { answer: { id: runs()[1].id } }));
  await running;
  assert.equal(runs().length, 2);
  delete globalThis.document;
  store.close();
});

test("a kernel that cannot be reached is told of", () => {
  const model = fake();
  model.send = () => { throw new Error("Connection lost"); };
  const store = new Store(model, message(1, 0, [1]));
  assert.match(store.quiet, /cannot be reached \(Connection lost\)/);
  store.close();
});

test("dots stand for as few jobs each as there is room for", () => {
  assert.deepEqual([0, 5, 324, 325, 648, 649, 3240, 4995, 20_000].map((jobs) => jobsADot(jobs, 324)), [1, 1, 1, 2, 2, 5, 10, 20, 100]);
  assert.equal(jobsADot(7, 0), 1); // where there is no room at all
});

test("it is a widget's front end, and touches no page before it is asked to", () => {
  assert.deepEqual(Object.keys(board), ["initialize", "render"]);
});
