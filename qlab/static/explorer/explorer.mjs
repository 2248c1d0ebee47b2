// The explorer as a widget of a notebook.

import { release } from "../board/kernel.mjs";
import { h, setAttribute, setText } from "../board/elements.mjs";
import { helpPart, hideStill, rootOf } from "../board/frame.mjs";
import { sessionOf } from "../board/session.mjs";
import { formPart } from "./form.mjs";
import { orderPart, outcomesPart, replayPart } from "./orders.mjs";

const KEYS = [
  ["Tab", "goes from control to control, Enter and Space press a button"],
  ["Enter", "in a field: explore"],
  ["← →", "on Order: one order back or forward; Home and End: the first and the last"],
  ["?", "shows this, Esc hides it"],
];

/** Draw an explorer into an element; returns what ends it. */
function drawExplorer(session, el) {
  const help = helpPart(KEYS);
  const root = rootOf(help, (why) => session.say(why));
  const title = h("span", { class: "title" });
  const badge = h("span", { class: "badge" });
  const trouble = h("p", { class: "trouble", role: "alert" });
  const status = h("p", { class: "sr", role: "status", "aria-live": "polite" });
  const form = formPart(session), outcomes = outcomesPart(session), order = orderPart(session), replay = replayPart(session);
  const parts = [form, outcomes, order, replay];
  const orders = h("div", { class: "orders" }, outcomes.el, order.el);
  root.append(h("div", { class: "top" }, title, badge, help.toggle), help.panel, form.el, trouble, form.hint, orders, replay.el, status);

  function update() {
    const { told } = session;
    setAttribute(root, "aria-label", `qlab explorer, ${told.lab}`);
    setAttribute(root, "class", "qlab explorer");
    setText(title, told.lab === "lab" ? "qlab · explorer" : `qlab · explorer of ${told.lab}`);
    const working = session.busy ? `exploring: ${told.looked.toLocaleString("en")} states` : session.slow ? "working …" : "";
    setText(badge, told.closed ? "closed" : working);
    badge.hidden = !badge.textContent;
    const problem = session.quiet || told.problem || session.hint;
    setText(trouble, problem);
    trouble.hidden = !problem;
    setAttribute(trouble, "class", session.quiet || told.problem ? "trouble" : "trouble hint");
    form.hint.hidden = Boolean(told.found) || session.busy;
    for (const part of parts) part.draw();
    setText(status, spoken(told));
  }
  /** What is said aloud: one voice, so nothing while the board of a replay speaks. */
  function spoken({ replay: going, found, doing }) {
    if (session.busy) return doing;
    return found && !going ? `${outcomes.said()} ${order.said()}` : "";
  }
  const place = h("div", { class: "qlab-place" }, root);
  el.append(place);
  session.views.add(update);
  update();
  return () => {
    session.views.delete(update);
    for (const part of parts) part.close?.();
    place.remove();
  };
}

function initialize({ model }) {
  const session = sessionOf(model), show = hideStill(session.told.key);
  return () => { show(); release(session); };
}

function render({ model, el }) {
  const session = sessionOf(model);
  const end = drawExplorer(session, el);
  return () => { end(); release(session); };
}

export default { initialize, render };
