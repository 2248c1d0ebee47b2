// What is around a panel: its outermost element, its key help, and what stands for it where it cannot live.

import { button, FOCUSABLE, h, newId, SUPPRESS } from "./elements.mjs";

/** The key help: its panel, the button that shows it, and what is done with each key. */
export function helpPart(told) {
  const lines = told.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]);
  const panel = h("dl", { class: "help", hidden: true, id: newId("help") }, ...lines);
  const toggle = button("?", () => show(panel.hidden), { "aria-label": "Key help", "aria-expanded": "false", "aria-controls": panel.id, class: "small round" });
  const show = (on) => { panel.hidden = !on; toggle.setAttribute("aria-expanded", String(on)); };
  const keys = (event) => {
    // The notebook's command keys (a, x, d d) must not reach it; its shortcuts with Ctrl or Meta, such as saving, may.
    if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
    if (event.key === "Control" || event.key === "Meta") event.target.removeAttribute(SUPPRESS);
    const types = event.target.matches("input:not([type=range]), textarea, select");
    if (event.key === "?" && !types) show(panel.hidden);
    if (event.key === "Escape" && !panel.hidden) show(false);
  };
  return { panel, toggle, keys };
}

/** The outermost element of a panel; `say` is told why a button cannot be pressed now. */
export function rootOf(help, say) {
  const root = h("div", { class: "qlab", role: "group" });
  root.addEventListener("keydown", help.keys);
  for (const over of ["keyup", "focusout"]) {
    root.addEventListener(over, ({ target }) => { if (target.matches(FOCUSABLE.join())) target.setAttribute(SUPPRESS, "true"); });
  }
  root.addEventListener("qlab-why", (event) => {
    event.stopPropagation(); // a board may be inside another panel
    say(event.detail);
  });
  return root;
}

/** Hide what stands for a panel where it cannot live, for as long as it lives here. */
export function hideStill(key) {
  const still = `#qlab-still-${key}`;
  const style = h("style", { "data-qlab-still": key }, `${still}, .jp-OutputArea-child:has(> * ${still}) { display: none; }`);
  document.head.append(style);
  return () => style.remove();
}
