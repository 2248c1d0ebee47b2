// The board as a widget of a notebook, and as a page that somebody kept.

import { release } from "./kernel.mjs";
import { Store, storeOf } from "./store.mjs";
import { hideStill } from "./frame.mjs";
import { drawBoard } from "./board.mjs";

/** Show a lab that somebody kept as a page: the same board, without a kernel. */
export function mount(el, told) {
  return drawBoard(new Store(null, told), el);
}

function initialize({ model }) {
  const store = storeOf(model), show = hideStill(model.get("told").board);
  return () => { show(); release(store); };
}

function render({ model, el }) {
  const store = storeOf(model);
  const end = drawBoard(store, el);
  return () => { end(); release(store); };
}

export default { initialize, render };
