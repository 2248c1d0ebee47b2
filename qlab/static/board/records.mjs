// The table of jobs, and files.

import { known, stateOf } from "./state.mjs";
import { s } from "./words.mjs";
import { aside, button, details, download, field, group, h, keyed, setAttribute, setText, table } from "./elements.mjs";
import { jobs, TITLES } from "./cards.mjs";

const COLUMNS = [
  ["job", "id"], ["handler", "name"], ["state", "where"], ["attempts", "attempts"], ["available at", "available_at"],
  ["worker", "worker"], ["last said", "detail"],
];
const ROWS = 100;

export function jobsPart(store) {
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
    const { length } = known(store.seen(store.first).state);
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

export function filesPart(store) {
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
    `${store.live ? "Save keeps what was done as lab.json, and Load does it again. " : ""}CSV and Parquet hold the events, SVG and PNG the timeline; HTML is this board as one page, which needs no kernel and no network.`));
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
