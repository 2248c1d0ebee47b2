// Small tools for elements. Text is only ever set as text.

export const SUPPRESS = "data-lm-suppress-shortcuts";
export const FOCUSABLE = ["button", "select", "input", "textarea", "summary"];

/** Make an element: attributes, `on…` listeners, children. Text is only ever set as text. */
export function h(tag, attributes = {}, ...children) {
  const el = document.createElement(tag);
  // JupyterLab must not take a key for its own while one of these has the focus: `d d` would delete the learner's cell.
  if (FOCUSABLE.includes(tag) || "tabindex" in attributes) el.setAttribute(SUPPRESS, "true");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) el.setAttribute(name, value === true ? "" : value);
  }
  el.append(...children.filter((child) => child !== null && child !== false));
  return el;
}

export function setText(el, text) {
  if (el.textContent !== String(text)) el.textContent = text;
}

export function setAttribute(el, name, value) {
  if (value === null || value === false) el.removeAttribute(name);
  else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, value === true ? "" : value);
}

/** Make a container hold one element for each item, in order; elements are kept by key. */
export function keyed(container, items, key, make, update) {
  const there = (container.__keyed ??= new Map());
  const wanted = new Set(items.map(key));
  for (const [name, el] of there) if (!wanted.has(name)) { el.remove(); there.delete(name); }
  items.forEach((item, i) => {
    const name = key(item);
    if (!there.has(name)) there.set(name, make(item));
    const el = there.get(name);
    update?.(el, item);
    if (container.children[i] !== el) container.insertBefore(el, container.children[i] ?? null);
  });
}

// Each model of a page has a copy of this module, and all their boards share one document.
const HERE = Math.random().toString(36).slice(2);
let made = 0;
export const newId = (what) => `qlab-${what}-${HERE}-${++made}`;

/** A control with its label. */
export function field(label, control, className = "") {
  const id = (control.id = newId("field"));
  return h("div", { class: `field ${className}` }, h("label", { for: id }, label), control);
}

export function button(text, onclick, attributes = {}) {
  return h("button", { type: "button", onclick: (event) => press(event, onclick), title: attributes["data-about"], ...attributes }, text);
}

/** A button that cannot be used now keeps its focus and says why; `disabled` would drop the focus into the notebook. */
function press(event, act) {
  const el = event.currentTarget;
  if (el.getAttribute("aria-disabled") === "true") el.dispatchEvent(new CustomEvent("qlab-why", { bubbles: true, detail: el.title }));
  else act(event);
}

export function enable(el, reason) {
  setAttribute(el, "aria-disabled", reason ? "true" : null);
  setAttribute(el, "title", reason || el.dataset.about || null);
}

export const group = (name, className, ...children) => h("div", { role: "group", "aria-label": name, class: className }, ...children);

export const aside = (text) => h("p", { class: "about" }, text);

export function details(name, ...children) {
  const note = h("span", { class: "note" });
  const el = h("details", { class: `more more-${name.toLowerCase()}` }, h("summary", {}, name, note), h("div", { class: "panel" }, ...children));
  el.note = note;
  return el;
}

export function table(columns, rows, caption = "") {
  return h("table", {}, caption && h("caption", {}, caption), h("thead", {}, h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((value) => h("td", {}, value instanceof Node ? value : String(value)))))));
}

/** Hand the reader a file. */
export function download(name, parts, type) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
