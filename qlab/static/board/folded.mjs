// What is folded away: policy, scenario, statements, plots, ledger.

import { named, s } from "./words.mjs";
import { ledger, times } from "./ledger.mjs";
import { aside, button, details, enable, field, group, h, keyed, setAttribute, setText, table } from "./elements.mjs";

export function policyPart(store) {
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

export function scenarioPart(store) {
  const pick = h("select", { onchange: () => draw() });
  const text = h("p", { class: "about" });
  const play = button("Play", async () => {
    if (!(await store.ask("play", { scenario: pick.value })).error) store.say("The scenario is laid out, from 0 s: press Run, or Jump to next event.");
  }, { class: "primary", "data-about": "empty the stores and lay the scenario out from 0 s; Run lets it happen" });
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

export function statementsPart(store) {
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
export function ledgerPart(store) {
  const body = h("div", { class: "columns" });
  const el = details("Ledger", aside("Each run of a handler that returns is entered as a side effect: its payload's amount, or 1."), body);
  const draw = () => {
    const told = store.sides.map((side) => ledger(side.ledger, store.past ? store.seen(side).count : Infinity));
    const { entries, balance, expected, twice } = told[0];
    setText(el.note, entries.length ? twice.length ? `${balance}, not ${expected} · twice: ${named(twice)}` : `${balance}, expected ${expected}` : "");
    setAttribute(el.note, "class", `note${twice.length ? " alarm" : ""}`);
    if (el.open) body.replaceChildren(...told.map((one, i) => sheet(one, store.sides.length > 1 ? store.sides[i].driver : "")));
  };
  el.addEventListener("toggle", draw);
  return { el, draw };
}

function sheet({ entries, balance, expected, twice }, driver) {
  const rows = entries.slice(-10).map(([at, job, amount, worker, , effect]) => [s(at), `job ${job}`, amount, worker, effect > 1 ? `took effect ${times(effect)}` : ""]);
  const verdict = !entries.length ? "Nothing has been entered yet." : twice.length
    ? `The balance is ${balance}, expected ${expected}: ${named(twice)} took effect more than once.` : `The balance is ${balance}, as expected.`;
  return h("div", {}, driver && h("b", {}, driver), h("p", { class: twice.length ? "verdict alarm" : "verdict" }, verdict),
    entries.length ? table(["at", "job", "amount", "worker", "remark"], rows, entries.length > 10 ? "the last 10" : "") : null);
}

/** Pictures that the kernel draws with qlab.plots: while this is open, at most four times a second. */
export function plotsPart(store) {
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
