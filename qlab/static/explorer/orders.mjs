// What came of it: how many orders end how, and each of them as a story.

import { release } from "../board/kernel.mjs";
import { storeOf } from "../board/store.mjs";
import { aside, button, enable, field, group, h, keyed, setAttribute, setText } from "../board/elements.mjs";
import { drawBoard } from "../board/board.mjs";

/** Which orders are browsed, beside those of an outcome; as in Python. */
const ALL = "!all";
const BROKEN = "!broken";

const many = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

/** How many orders end how; each row is a button that shows its orders. */
export function outcomesPart(session) {
  const verdict = h("p", { class: "verdict" });
  const code = h("code", {});
  const twin = h("p", { class: "about twin" }, "The same in a cell: ", code);
  const body = h("tbody", {});
  const head = h("tr", {}, ...["orders", "how many", "share"].map((name) => h("th", { scope: "col" }, name)));
  const sheet = h("table", { class: "outcomes" }, h("thead", {}, head), body);
  const el = h("section", { class: "found", "aria-label": "Outcomes" }, verdict, h("div", { class: "scroll" }, sheet), twin);

  function makeRow([which]) {
    const pick = button("", () => session.do("look", { which, number: 1 }), { class: "link" });
    const count = h("td", { class: "count" }), bar = h("i");
    return Object.assign(h("tr", {}, h("td", {}, pick), count, h("td", { class: "share" }, h("span", { class: "bar", "aria-hidden": "true" }, bar))), { pick, count, bar });
  }
  function draw() {
    const { found, order } = session.told;
    el.hidden = !found;
    if (!found) return;
    const bound = found.bound ? `, each of which finds what takes 3 choices with a probability of at least ${found.bound.toPrecision(2)}` : "";
    const sound = `No order breaks a promise.${found.flaw ? " This flaw shows in another scenario: press Find what breaks." : ""}`;
    setText(verdict, `${found.says}${bound}: ${many(found.states, "state")}, on ${found.driver}. ${found.broken ? `A promise is broken: “${found.broken.promise}”.` : sound}`);
    setAttribute(verdict, "class", found.broken ? "verdict alarm" : "verdict");
    setText(code, found.code);
    const rows = found.outcomes.map(([outcome, count]) => [outcome, outcome, count]);
    rows.push([ALL, "all orders", found.paths]);
    if (found.broken) rows.unshift([BROKEN, "the shortest that breaks a promise", 1]);
    keyed(body, rows, ([which]) => which, makeRow, (row, [which, text, count]) => {
      setText(row.pick, text);
      setAttribute(row.pick, "aria-pressed", String(order?.which === which));
      setAttribute(row, "class", `${order?.which === which ? "picked" : ""} ${which === BROKEN ? "broken" : ""}`);
      setText(row.count, count.toLocaleString("en"));
      row.bar.style.width = which === BROKEN ? "0" : `${Math.max(0.5, (100 * count) / found.paths)}%`;
      enable(row.pick, session.cannot);
    });
  }
  return { el, draw, said: () => verdict.textContent };
}

/** One order: the story of its steps. */
export function orderPart(session) {
  const title = h("h3", { class: "order-title" });
  const range = h("input", { type: "range", min: 1, step: 1, oninput: () => look(Number(range.value)) });
  const previous = button("Previous order", () => look(place() - 1));
  const next = button("Next order", () => look(place() + 1));
  const slider = field("Order", range, "travel-range");
  const browse = group("Browse", "travel", previous, slider, next);
  const story = h("ol", { class: "story", "aria-label": "the steps of this order" });
  const end = h("p", { class: "end" });
  const el = h("section", { class: "order", "aria-label": "One order" }, title, browse, story, end);
  let wanted = null, asking = false;

  const place = () => wanted ?? session.told.order.number;
  const total = () => countOf(session.told);
  /** One question at a time, for the last place that was asked for. */
  async function look(number) {
    wanted = Math.max(1, Math.min(total(), number));
    session.changed();
    if (asking) return;
    asking = true;
    while (wanted !== null && wanted !== session.told.order?.number) {
      const { error } = await session.do("look", { which: session.told.order.which, number: wanted });
      if (error) break;
      if (wanted === session.told.order?.number) wanted = null;
    }
    [wanted, asking] = [null, false];
    session.changed();
  }
  function draw() {
    const { order, replay } = session.told;
    el.hidden = !order;
    if (!order) return;
    const count = total(), of = `${order.number.toLocaleString("en")} of ${count.toLocaleString("en")}`;
    setText(title, order.which === BROKEN ? "The shortest order that breaks a promise" : `Order ${of}${order.which === ALL ? "" : `: ${order.which}`}`);
    browse.hidden = count < 2;
    setAttribute(range, "max", count);
    if (Number(range.value) !== place()) range.value = place();
    setAttribute(range, "aria-valuetext", `order ${of}`);
    enable(previous, session.cannot || (place() > 1 ? "" : "this is the first"));
    enable(next, session.cannot || (place() < count ? "" : "this is the last"));
    const lines = order.sentences.map((text, i) => ({ text, i, kind: order.kinds[i].replace(" ", "-"), broken: i > 0 && i === order.broken_at }));
    keyed(story, lines, ({ i }) => i, () => {
      const [mark, said, alarm] = [h("span", { class: "mark", "aria-hidden": "true" }), h("span", { class: "said" }), h("strong", { class: "alarm", hidden: true })];
      return Object.assign(h("li", {}, mark, h("div", {}, said, alarm)), { said, alarm });
    }, (line, { text, i, kind, broken }) => {
      setText(line.said, text);
      line.alarm.hidden = !broken;
      setText(line.alarm, broken ? order.end : "");
      const ahead = replay && i > replay.taken;
      setAttribute(line, "class", `${kind || "opening"}${broken ? " breaks" : ""}${ahead ? " ahead" : ""}`);
      setAttribute(line, "aria-current", replay && i === replay.taken ? "step" : null);
    });
    setText(end, order.broken_at === null ? order.end : "");
    end.hidden = order.broken_at !== null;
  }
  return { el, draw, said: () => title.textContent };
}

/** How many orders there are of those that are browsed. */
function countOf({ found, order }) {
  if (order.which === BROKEN) return 1;
  return order.which === ALL ? found.paths : found.outcomes.find(([outcome]) => outcome === order.which)?.[1] ?? 1;
}

/** The order that is shown, taken step by step on a board. */
export function replayPart(session) {
  const beside = h("input", { type: "checkbox" });
  const also = h("label", { class: "flag" }, beside, "beside the memory driver, which keeps every promise");
  const replay = button("Replay on a board", () => session.do("replay", { beside: beside.checked }),
    { class: "primary", "data-about": "take these steps in a lab of their own, one by one; from any of them you may go on by hand" });
  const next = button("Next step", () => session.do("next"), { class: "primary" });
  const rest = button("All steps", () => session.do("rest"), {});
  const close = button("Close replay", () => session.do("close_replay"), {});
  const where = h("span", { class: "where" });
  const board = h("div", { class: "branches" });
  const acts = group("Replay", "travel", replay, also, next, rest, close, where);
  const el = h("section", { class: "replay", "aria-label": "Replay" }, acts, board);
  let shown = null, end = null;

  async function show(id) {
    shown = id;
    end?.();
    end = null;
    board.replaceChildren();
    if (!id) return;
    const box = h("section", { class: "qlab-branch", "aria-label": "board of the replay" });
    board.append(box);
    try {
      const store = storeOf(await session.model.widget_manager.get_model(id));
      if (shown !== id) return release(store);
      const stop = drawBoard(store, box);
      end = () => { stop(); release(store); };
    } catch {
      box.append(aside("The replay is there, but this page cannot show its board here: in a cell, lab.explorer().replay.lab.board() shows it."));
    }
  }
  function draw() {
    const { order, replay: going, found } = session.told;
    el.hidden = !order;
    if (!order) return;
    const left = going ? going.of - going.taken : 0;
    for (const one of [next, rest, close, where]) one.hidden = !going;
    replay.hidden = Boolean(going);
    also.hidden = Boolean(going) || !found.flaw;
    enable(replay, session.cannot);
    for (const one of [next, rest]) enable(one, session.cannot || (left ? "" : "all steps are taken"));
    enable(close, session.cannot);
    setText(where, going ? `step ${going.taken} of ${going.of}` : "");
    if ((going?.board ?? null) !== shown) show(going?.board ?? null);
  }
  return { el, draw, close: () => { shown = null; end?.(); } };
}
