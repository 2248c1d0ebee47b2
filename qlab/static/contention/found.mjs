// What came of it: the answer in words, pictures, and the figures as a table.

import { details, h, setText, table } from "../board/elements.mjs";

export function foundPart(session) {
  const answer = h("div", { class: "answer" });
  const pictures = h("div", { class: "pictures" });
  const figures = details("Figures"), how = details("How");
  const code = h("code", {});
  const el = h("div", { class: "contended", hidden: true }, answer, pictures, h("div", { class: "folded" }, figures, how));
  let shown = "";
  let urls = [];

  async function fetch() {
    const { result, buffers } = await session.ask("pictures");
    for (const url of urls) URL.revokeObjectURL(url);
    urls = (buffers ?? []).map((data) => URL.createObjectURL(new Blob([data], { type: "image/png" })));
    pictures.replaceChildren(...(result ?? []).map(({ part, about }, i) =>
      h("figure", {}, h("figcaption", {}, h("b", {}, part), ` ${about}`), h("img", { src: urls[i], alt: about }))));
  }
  function draw() {
    const { found } = session.told;
    el.hidden = !found;
    const present = found ? JSON.stringify([found.code, found.rows]) : "";
    if (present === shown) return;
    shown = present;
    pictures.replaceChildren();
    if (!found) return;
    const cut = found.interrupted ? ["It was stopped: this is what was measured until then."] : [];
    answer.replaceChildren(...[...cut, ...found.answer].map((line) => h("p", {}, line)));
    figures.querySelector(".panel").replaceChildren(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "figures" }, table(found.columns, found.rows)));
    setText(code, found.code);
    how.querySelector(".panel").replaceChildren(h("p", { class: "twin" }, "The same in code: ", code), ...[...found.notes, ...found.machine].map((line) => h("p", { class: "about" }, line)));
    fetch();
  }
  const close = () => { for (const url of urls) URL.revokeObjectURL(url); };
  return { el, draw, close };
}
