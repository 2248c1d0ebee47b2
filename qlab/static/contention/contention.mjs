// Contention as a widget of a notebook.

import { release } from "../board/kernel.mjs";
import { h, setAttribute, setText } from "../board/elements.mjs";
import { helpPart, hideStill, rootOf } from "../board/frame.mjs";
import { sessionOf } from "../board/session.mjs";
import { contenders } from "./form.mjs";
import { foundPart } from "./found.mjs";

const PRESSED = [
  ["Tab", "goes from control to control, Enter and Space press a button"],
  ["Space", "on a store: ticks it"],
  ["Enter", "in a field: measure"],
  ["?", "shows this, Esc hides it"],
];

/** Draw the panel into an element; returns what ends it. */
function drawContention(session, el) {
  const help = helpPart(PRESSED);
  const root = rootOf(help, (why) => session.say(why));
  const title = h("span", { class: "title" });
  const badge = h("span", { class: "badge" });
  const trouble = h("p", { class: "trouble", role: "alert" });
  const status = h("p", { class: "sr", role: "status", "aria-live": "polite" });
  const form = contenders(session), found = foundPart(session);
  root.append(h("div", { class: "top" }, title, badge, help.toggle), help.panel, form.el, trouble, form.hint, found.el, status);

  function update() {
    const { told } = session;
    setAttribute(root, "aria-label", `qlab contention, ${told.lab}`);
    setAttribute(root, "class", "qlab contention");
    setText(title, told.lab === "lab" ? "qlab · contention" : `qlab · contention of ${told.lab}`);
    setText(badge, told.closed ? "closed" : session.busy ? `measuring: ${Math.floor(told.share * 100)} %` : session.slow ? "working …" : "");
    badge.hidden = !badge.textContent;
    const problem = session.quiet || told.problem || session.hint;
    setText(trouble, problem);
    trouble.hidden = !problem;
    setAttribute(trouble, "class", session.quiet || told.problem ? "trouble" : "trouble hint");
    form.hint.hidden = Boolean(told.found) || session.busy;
    form.draw();
    found.draw();
    setText(status, session.busy ? told.doing : told.found ? told.found.answer[0] ?? "" : "");
  }
  const place = h("div", { class: "qlab-place" }, root);
  el.append(place);
  session.views.add(update);
  update();
  return () => {
    session.views.delete(update);
    found.close();
    place.remove();
  };
}

function initialize({ model }) {
  const session = sessionOf(model), show = hideStill(session.told.key);
  return () => { show(); release(session); };
}

function render({ model, el }) {
  const session = sessionOf(model);
  const end = drawContention(session, el);
  return () => { end(); release(session); };
}

export default { initialize, render };
