// A job as a card, and many jobs as cards and dots.

import { about } from "./words.mjs";
import { times } from "./ledger.mjs";
import { button, enable, h, keyed, setAttribute, setText } from "./elements.mjs";

export const SLOTS = { delayed: 5, ready: 5, done: 5, failed: 3 };
export const TITLES = { delayed: "Delayed", ready: "Ready", reserved: "Reserved", done: "Done", failed: "Failed" };
export const jobs = (count) => `${count} ${count === 1 ? "job" : "jobs"}`;

/** What a card says of a job that waits, is held, or has ended. */
export function card(seen, where, now, how = "", effects = 1) {
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
export function ghost(state, hand, now) {
  const seen = state.jobs.get(hand.job);
  const taken = seen && (seen.attempts !== hand.attempt || seen.settled);
  const done = seen?.settled === "lost" ? "it is lost" : seen?.settled ? "another has settled it" : "it is another's now";
  const note = taken ? done : "still works on it";
  const when = seen?.settled === "lost" ? "" : now > hand.until ? `${about(now - hand.until)} late` : "ran out";
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
  setAttribute(el, "title", [item.name, item.note].filter(Boolean).join(": ") || null); // both may be cut short
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
export function cardList(store, shown, side, high = 48) {
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
