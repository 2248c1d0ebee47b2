// What is explored: a queue, a scenario, and how much may go wrong.

import { aside, button, enable, field, group, h, keyed, setText } from "../board/elements.mjs";

const COUNTS = [
  ["workers", "Workers", 1, "how many workers there are"],
  ["jobs", "Jobs", 1, "how many jobs are dispatched at the start"],
  ["tries", "Tries", 1, "how many attempts a job has; empty for no limit"],
  ["fails", "Failing attempts", 0, "how many attempts of a job fail before one succeeds; empty for every one"],
  ["expiries", "Run-outs", 0, "how many reservations may run out under their worker, at the most"],
  ["crashes", "Crashes", 0, "how many workers may crash with a job in hand, at the most"],
  ["restarts", "Restarts", 0, "how many of those may be started again, and recover what they find"],
];
const OPEN = { tries: "no limit", fails: "every one" };
const FLAGS = [
  ["runs_out", "reservations run out at all"],
  ["renamed", "a worker that is started again has a new name"],
];
const SAMPLES = [["", "all of them"], ["random", "a random sample"], ["pct", "a sample by PCT"]];

export function formPart(session) {
  const queue = h("select", { onchange: () => session.changed() });
  const scenario = h("select", { onchange: () => { fill(scenario.value); session.changed(); } });
  const counts = Object.fromEntries(COUNTS.map(([name, , least, about]) =>
    [name, h("input", { type: "number", min: least, max: 8, step: 1, title: about, placeholder: OPEN[name], required: !OPEN[name], oninput: () => session.changed() })]));
  const flags = Object.fromEntries(FLAGS.map(([name]) => [name, h("input", { type: "checkbox", oninput: () => session.changed() })]));
  const sample = h("select", {}, ...SAMPLES.map(([value, text]) => h("option", { value }, text)));
  const problem = h("p", { class: "problem" });
  const told = h("div", { class: "about-queue" });
  const explore = button("Explore", () => {}, { type: "submit", class: "primary", "data-about": "take the steps of this scenario in every order" });
  const hunt = button("Find what breaks", async () => {
    const { result } = await session.do("hunt", { driver: queue.value });
    if (!result) return;
    scenario.value = result.scenario;
    fill(result.scenario);
    session.say(result.broken ? "" : `No order of any scenario breaks a promise: ${result.orders.toLocaleString("en")} orders of ${result.scenarios} scenarios.`);
  }, { "data-about": "explore one scenario after another, the smallest first, until an order breaks a promise" });
  const stop = button("Stop", () => session.stop(), { "data-about": "end the exploration" });

  const pick = h("div", { class: "form-row pick" }, field("Queue", queue, "wide"), field("Scenario", scenario, "wide"), field("Orders", sample), explore, hunt, stop);
  const numbers = group("How much may happen", "numbers",
    ...COUNTS.map(([name, label]) => field(label, counts[name])),
    h("div", { class: "flags" }, ...FLAGS.map(([name, label]) => h("label", { class: "flag" }, flags[name], label))));
  const el = h("form", { class: "explore", novalidate: true, onsubmit: begin }, pick, told, numbers, problem);

  function begin(event) {
    event.preventDefault();
    if (explore.getAttribute("aria-disabled") !== "true") session.do("explore", asked());
  }
  const number = (input) => (input.value === "" ? null : Number(input.value));
  const known = () => session.told.situations;

  function fill(name) {
    const fields = known().find((one) => one.name === name);
    if (!fields) return;
    for (const [one, input] of Object.entries(counts)) input.value = fields[one] ?? "";
    for (const [one, input] of Object.entries(flags)) input.checked = fields[one];
    check();
  }
  function asked() {
    const { about } = known().find((one) => one.name === scenario.value);
    const values = Object.fromEntries([...Object.entries(counts).map(([one, input]) => [one, number(input)]), ...Object.entries(flags).map(([one, input]) => [one, input.checked])]);
    return { driver: queue.value, sample: sample.value || null, name: scenario.value, about, ...values };
  }
  function wrong() {
    const found = COUNTS.find(([name]) => !counts[name].validity.valid);
    return found ? `${found[1]}: use a whole number from ${found[2]} to 8${OPEN[found[0]] ? `, or nothing for ${OPEN[found[0]]}` : ""}.` : "";
  }
  function check() {
    for (const input of Object.values(counts)) input.setAttribute("aria-invalid", String(!input.validity.valid));
    setText(problem, wrong());
    enable(explore, session.cannot || wrong());
  }
  function describe() {
    const [, promise, does] = session.told.queues.find(([name]) => name === queue.value) ?? [];
    const { about } = known().find((one) => one.name === scenario.value) ?? {};
    const lines = promise ? [["A promise", promise], ["This flaw", does]] : [["A driver", "It keeps every promise: no order should break one."]];
    const changed = isChanged() ? " Its numbers are changed below." : "";
    told.replaceChildren(...[...lines, ["The scenario", `${about ?? ""}${changed}`]].map(([what, text]) => h("p", {}, h("b", {}, `${what}: `), text ?? "")));
  }
  function isChanged() {
    const fields = known().find((one) => one.name === scenario.value) ?? {};
    return COUNTS.some(([name]) => number(counts[name]) !== fields[name]) || FLAGS.some(([name]) => flags[name].checked !== fields[name]);
  }
  let described = "";
  function draw() {
    if (!queue.options.length) {
      const named = (flaw) => session.told.queues.filter(([, promise]) => Boolean(promise) === flaw).map(([name]) => h("option", { value: name }, name));
      queue.append(h("optgroup", { label: "Flaws" }, ...named(true)), h("optgroup", { label: "Drivers" }, ...named(false)));
      keyed(scenario, known(), (one) => one.name, (one) => h("option", { value: one.name }, one.name.replaceAll("_", " ")));
      queue.value = session.told.driver;
      fill(scenario.value);
    }
    const present = `${queue.value} ${scenario.value} ${isChanged()}`;
    if (present !== described) { described = present; describe(); }
    check();
    enable(hunt, session.cannot);
    enable(stop, session.busy ? "" : "nothing is being explored");
  }
  return { el, draw, hint: aside("Pick a queue and a scenario, and press Explore: every order in which its workers can take their steps is tried on the queue itself.") };
}
