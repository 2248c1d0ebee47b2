// What contends: stores by what they survive, how many workers, and what there is to do.

import { aside, button, enable, field, group, h, setText } from "../board/elements.mjs";

const MEASURES = [
  ["jobs", "Jobs", 2000, 1, 1000000, 1, "how many jobs each run has"],
  ["length", "Job length (ms)", 0, 0, 60000, "any", "how long each job takes"],
  ["repeats", "Repeats", 1, 1, 20, 1, "how often each store runs with each number of workers"],
];

export function contenders(session) {
  const arms = new Map();
  const stores = h("div", { class: "arms" });
  const way = h("select", {});
  const workers = h("input", { type: "text", value: "1, 2, 4, 8", spellcheck: "false", title: "numbers of workers, each a process of its own", oninput: () => session.changed() });
  const numbers = Object.fromEntries(MEASURES.map(([name, , usual, least, most, step, about]) =>
    [name, h("input", { type: "number", value: usual, min: least, max: most, step, title: about, required: true, oninput: () => session.changed() })]));
  const busy = h("input", { type: "checkbox" });
  const problem = h("p", { class: "problem", role: "alert" });
  const measure = button("Measure", () => {}, { type: "submit", class: "primary", "data-about": "let real workers contend for the jobs of each store" });
  const stop = button("Stop", () => session.stop(), { "data-about": "end it; what was measured until then is shown" });
  const bar = h("progress", { max: 1, value: 0, "aria-label": "how much was measured" });
  const what = h("span", { class: "note" });
  const going = h("div", { class: "going", hidden: true }, bar, what);
  const row = group("What there is to do", "form-row", field("Workers", workers, "wide"), ...MEASURES.map(([name, label]) => field(label, numbers[name])),
    field("Redis is reached by", way, "wide"), h("label", { class: "flag" }, busy, "on the processor"), measure, stop);
  const el = h("form", { class: "contend", novalidate: true, onsubmit: begin }, stores, row, problem, going);

  const counts = () => workers.value.split(/[,\s]+/).filter(Boolean).map(Number);
  const picked = () => [...arms].filter(([, box]) => box.checked).map(([name]) => (name.startsWith("redis") ? name + way.value : name));

  function begin(event) {
    event.preventDefault();
    if (measure.getAttribute("aria-disabled") === "true") return session.say(measure.title);
    const [jobs, length, repeats] = MEASURES.map(([name]) => Number(numbers[name].value));
    session.do("measure", { arms: picked(), workers: counts(), jobs, length: length / 1000, busy: busy.checked, repeats });
  }
  function wrong() {
    if (!picked().length) return "Tick at least one store.";
    if (!counts().length || counts().some((count) => !Number.isInteger(count) || count < 1 || count > 64)) return "Workers: write numbers from 1 to 64 with commas between them, as in 1, 2, 4.";
    const found = MEASURES.find(([name]) => !numbers[name].validity.valid);
    return found ? `${found[1]}: use a number from ${found[3]} to ${found[4].toLocaleString("en")}.` : "";
  }
  function lay() {
    for (const { survives, arms: names } of session.told.classes) {
      const boxes = names.map((name) => {
        const box = h("input", { type: "checkbox", checked: session.told.first.includes(name), onchange: () => session.changed() });
        arms.set(name, box);
        return h("label", { class: "flag" }, box, name);
      });
      stores.append(group(`survive ${survives}`, "arm-class", h("p", { class: "about" }, `Survives ${survives}`), ...boxes));
    }
    way.append(...session.told.ways.map(([end, words]) => h("option", { value: end }, words)));
  }
  function draw() {
    if (!arms.size) lay();
    const no = wrong();
    setText(problem, no);
    enable(measure, session.cannot || no);
    enable(stop, session.busy ? "" : "nothing is being measured");
    going.hidden = !session.busy;
    bar.value = session.told.share;
    setText(what, session.told.what);
  }
  return { el, draw, hint: aside("Tick stores that survive the same, and press Measure: worker processes start together on each, and the machine is busy for a while.") };
}
