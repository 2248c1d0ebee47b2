// The form that dispatches.

import { button, enable, field, h, keyed, newId, setAttribute, setText } from "./elements.mjs";

export function dispatchPart(store) {
  const handler = h("select", {});
  const payload = h("input", { type: "text", value: '{"amount": 10}', spellcheck: "false", autocomplete: "off", oninput: check });
  const problem = h("p", { class: "problem", id: newId("problem") });
  const delay = h("input", { type: "number", min: "0", step: "any", value: "0" });
  const count = h("input", { type: "number", min: "1", max: "5000", value: "1" });
  const send = h("button", { type: "submit", class: "primary" }, "Dispatch");
  payload.setAttribute("aria-describedby", problem.id);

  function check() {
    const wrong = notJson(payload.value);
    setAttribute(payload, "aria-invalid", wrong ? "true" : null);
    setText(problem, wrong);
    return !wrong;
  }
  function submit(event) {
    event.preventDefault();
    if (store.cannot) return store.say(store.cannot);
    if (!check()) return payload.focus();
    const args = { handler: handler.value, payload: payload.value, delay: Number(delay.value), count: Number(count.value) };
    return store.ask("dispatch_text", args);
  }
  const el = h("form", { class: "dispatch", "aria-label": "Dispatch", novalidate: true, onsubmit: submit },
    field("Handler", handler), field("Payload", payload, "wide"), field("Delay (s)", delay, "short"),
    field("How many", count, "short"), send, problem);
  const draw = () => {
    const chosen = handler.value;
    keyed(handler, store.head.handlers ?? [], (name) => name, (name) => h("option", { value: name }, name));
    if ((store.head.handlers ?? []).includes(chosen)) handler.value = chosen;
    else if (!chosen && (store.head.handlers ?? []).includes("pay")) handler.value = "pay";
    enable(send, store.cannot);
  };
  return { el, draw };
}

/** Say what is wrong with a text that should be JSON; an empty one is `null`. */
export function notJson(text) {
  if (!text.trim()) return "";
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    const quoted = /^[\p{L}_][\p{L}\p{N}_ -]*$/u.test(text.trim()) ? ` Text goes in quotes: "${text.trim()}"` : "";
    return `Not JSON: ${error.message}.${quoted}`;
  }
}
