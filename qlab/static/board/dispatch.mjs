// The form that dispatches.

import { button, enable, field, h, keyed, newId, setAttribute, setText } from "./elements.mjs";

export function dispatchPart(store) {
  const handler = h("select", {});
  const payload = h("input", { type: "text", value: '{"amount": 10}', spellcheck: "false", autocomplete: "off", oninput: check });
  const problem = h("p", { class: "problem", id: newId("problem") });
  const delay = h("input", { type: "number", min: "0", step: "any", value: "0", oninput: check });
  const count = h("input", { type: "number", min: "1", max: "5000", value: "1", required: true, oninput: check });
  const send = h("button", { type: "submit", class: "primary" }, "Dispatch");
  const checks = [
    [payload, () => notJson(payload.value)],
    [delay, () => (delay.validity.valid ? "" : "Delay (s): use seconds, 0 or more.")],
    [count, () => (count.validity.valid ? "" : "How many: use a whole number from 1 to 5,000.")],
  ];
  for (const [input] of checks) input.setAttribute("aria-describedby", problem.id);

  /** Mark the fields that are wrong, say why the first one is, and give it. */
  function check() {
    const told = checks.map(([input, wrong]) => [input, wrong()]);
    for (const [input, wrong] of told) setAttribute(input, "aria-invalid", wrong ? "true" : null);
    const [input, wrong] = told.find((one) => one[1]) ?? [null, ""];
    setText(problem, wrong);
    return input;
  }
  function submit(event) {
    event.preventDefault();
    if (store.cannot) return store.say(store.cannot);
    const wrong = check();
    if (wrong) return wrong.focus();
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
    return `Not JSON: ${error.message}.${hint(text.trim())}`;
  }
}

/** Say what is often meant: a bare word, or what Python and JavaScript read. */
function hint(text) {
  if (/^[\p{L}_][\p{L}\p{N}_ -]*$/u.test(text)) return ` Text goes in quotes: "${text}"`;
  const bare = text.replace(/"(?:[^"\\]|\\.)*"?/g, '""');
  if (/\b(?:True|False|None)\b/.test(bare)) return " JSON writes true, false and null.";
  return /'|[{,]\s*(?!(?:true|false|null)\b)[\p{L}_]/u.test(bare) ? " Names and text go in double quotes." : "";
}
