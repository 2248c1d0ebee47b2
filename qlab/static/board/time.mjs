// The clock, what happened, how time goes on, and back.

import { s, tell } from "./words.mjs";
import { tellDoubles } from "./ledger.mjs";
import { button, enable, field, group, h, setAttribute, setText } from "./elements.mjs";

export function headPart(store, help, more) {
  const title = h("span", { class: "title" });
  const badge = h("span", { class: "badge" });
  const clock = h("span", { class: "clock", role: "timer", "aria-label": "simulated clock" });
  const reset = button("Reset", () => store.ask("reset"), { class: "small", "data-about": "everything anew: the stores empty, the clock at 0" });
  const engine = h("span", { class: "engine" });
  const time = h("span", { class: "time" }, h("span", { class: "small-label", "aria-hidden": "true" }, "simulated clock"), clock);
  const el = h("div", { class: "top" }, title, store.live ? reset : null, more, badge, engine, help, time);
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
export function logPart(store) {
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

export function timePart(store) {
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

export function travelPart(store) {
  const range = h("input", { type: "range", min: "0", step: "1", oninput: () => store.look(Number(range.value)) });
  const where = h("span", { class: "where" });
  const place = () => store.position ?? store.length;
  const back = button("Step back", () => store.look(place() - 1));
  const forward = button("Step forward", () => store.look(place() + 1));
  const now = button("Now", () => store.look(null));
  const branch = button("Branch here", async () => {
    const from = place();
    const { result, error } = await store.ask("branch", { events: from });
    if (!error && result >= from) store.say("The branch is below: the same up to here, with a clock of its own.");
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
