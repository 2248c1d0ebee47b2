// The board: nothing touches the page until it is drawn.
//
// The kernel holds the truth. What a page keeps is every event of each driver, and `reduce` turns events into the state
// at any moment; so the scrubber needs no kernel. `qlab/front.py` joins these modules to the one that a widget takes: it
// names them in the order in which they are read best. Each part of a board takes the store and gives { el, draw }.

import { release } from "./kernel.mjs";
import { storeOf } from "./store.mjs";
import { button, FOCUSABLE, h, keyed, setAttribute } from "./elements.mjs";
import { helpPart, rootOf } from "./frame.mjs";
import { dispatchPart } from "./dispatch.mjs";
import { sidePart, workersPart } from "./lanes.mjs";
import { headPart, logPart, timePart, travelPart } from "./time.mjs";
import { ledgerPart, plotsPart, policyPart, scenarioPart, statementsPart } from "./folded.mjs";
import { filesPart, jobsPart } from "./records.mjs";

/** The boards of branches, below the one that they were branched off. */
function branchesPart(store) {
  const el = h("div", { class: "branches" });
  const ends = new Map();
  const make = ([id, name]) => {
    const box = h("section", { class: "qlab-branch", "aria-label": name });
    show(id, name, box);
    return box;
  };
  const show = async (id, name, box) => {
    try {
      const own = storeOf(await store.model.widget_manager.get_model(id));
      const end = drawBoard(own, box, button("Close branch", () => store.ask("close_branch", { branch: id }), { class: "small" }));
      ends.set(id, () => { end(); release(own); });
    } catch {
      box.append(`The branch is there, but this page cannot show it here: in a cell, the last of board.branches shows it ("${name}").`);
    }
  };
  const drawBranches = () => {
    const wanted = store.head.branches ?? [];
    for (const [id, end] of ends) if (!wanted.some(([one]) => one === id)) { end(); ends.delete(id); }
    keyed(el, wanted, ([id]) => id, make);
  };
  return { el, draw: drawBranches, close: () => ends.forEach((end) => end()) };
}

/** Let cards glide from where they were to where they are; not for those who asked for less motion. */
function glide(root, change) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches || !root.isConnected;
  const before = new Map(calm ? [] : [...root.querySelectorAll(":scope > .side .job")].map((el) => [nameOf(el), el.getBoundingClientRect()]));
  change();
  if (calm) return;
  for (const el of root.querySelectorAll(":scope > .side .job")) {
    const from = before.get(nameOf(el));
    if (!from) { if (before.size) el.animate([{ opacity: 0 }, { opacity: 1 }], 200); continue; }
    const to = el.getBoundingClientRect();
    const [x, y] = [from.left - to.left, from.top - to.top].map((by) => by / (el.currentCSSZoom ?? 1));
    const far = Math.abs(x) + Math.abs(y) > 1;
    if (far) el.animate([{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }], { duration: 280, easing: "ease-out" });
  }
}
const nameOf = (el) => `${el.closest(".side").getAttribute("aria-label")} ${el.classList.contains("late")} ${el.jobId.textContent}`;

const HELP = [
  ["Tab", "goes from control to control, Enter and Space press a button"],
  ["← →", "in Time travel: one event back or forward; Home and End: the beginning and now"],
  ["Enter", "in Payload: dispatch"],
  ["?", "shows this, Esc hides it"],
];

/** Build anew what is in an element, and leave open what was open, and the focus where it was. */
function keepPlace(root, build) {
  const mark = (el) => `${el.tagName} ${el.getAttribute("aria-label") ?? el.textContent}`;
  const open = [...root.querySelectorAll("details[open]")].map((el) => el.className);
  const focus = root.contains(document.activeElement) ? mark(document.activeElement) : null;
  build();
  for (const el of root.querySelectorAll("details")) if (open.includes(el.className)) el.open = true;
  if (focus) [...root.querySelectorAll(FOCUSABLE.join())].find((el) => mark(el) === focus)?.focus();
}

/** Draw a board for a store into an element; returns what ends it. */
export function drawBoard(store, el, more = null) {
  const help = helpPart(HELP);
  const root = rootOf(help, (why) => store.say(why));
  let parts = [], shape = "";

  const several = () => store.sides.length > 1 || store.first.seats.length > 4;

  function build() {
    for (const part of parts) part.close?.();
    const live = store.live;
    const time = timePart(store);
    const sides = store.sides.map((_, i) => sidePart(store, i, several()));
    const crew = live && several() ? workersPart(store) : null;
    const head = headPart(store, help.toggle, more), log = logPart(store), travel = travelPart(store);
    const dispatch = live && dispatchPart(store);
    const folded = [...(live ? [policyPart, scenarioPart, statementsPart] : []), plotsPart, jobsPart, filesPart, ledgerPart]
      .map((part) => part(store));
    const branches = live && branchesPart(store);
    parts = [head, dispatch, ...sides, crew, log, live && time, travel, ...folded, branches].filter(Boolean);
    const below = h("div", { class: "folded" }, ...folded.map((part) => part.el));
    const shown = [head, { el: help.panel }, dispatch, ...sides, crew, log, live && time, travel, { el: below }, branches];
    root.replaceChildren(...shown.filter(Boolean).map((part) => part.el));
  }
  function update() {
    if (!store.first) return;
    const present = `${store.sides.length} ${several()}`;
    if (present !== shape) { shape = present; keepPlace(root, build); }
    setAttribute(root, "aria-label", `qlab board, ${store.head.name}, on ${store.sides.map((side) => side.driver).join(", ")}`);
    setAttribute(root, "class", `qlab${store.past ? " past" : ""}${several() ? " several" : ""}${store.live ? "" : " kept"}`);
    glide(root, () => { for (const part of parts) part.draw(); });
  }
  const place = h("div", { class: "qlab-place" }, root);
  el.append(place);
  store.views.add(update);
  update();
  return () => {
    store.views.delete(update);
    for (const part of parts) part.close?.();
    place.remove();
  };
}
