// A driver's lanes, its workers, and their buttons.

import { lanes } from "./state.mjs";
import { named, s } from "./words.mjs";
import { effectsOf } from "./ledger.mjs";
import { button, enable, group, h, keyed, setAttribute, setText } from "./elements.mjs";
import { card, cardList, ghost, jobs, SLOTS, TITLES } from "./cards.mjs";

/** One driver's lanes. */
export function sidePart(store, index, several) {
  const controls = store.live && !several;
  const counts = {}, stacks = {};
  const lane = (name, ...inside) => {
    counts[name] = h("b", {}, "0");
    const head = h("div", { class: "head" }, h("span", { class: "icon", "aria-hidden": "true" }), TITLES[name], counts[name]);
    return h("div", { class: `lane ${name}` }, head, ...inside);
  };
  const stacked = (name) => {
    stacks[name] = cardList(store, several ? Math.ceil(SLOTS[name] / 2) : SLOTS[name], () => store.sides[index], several ? 24 : 48);
    return lane(name, stacks[name].el);
  };
  const workers = h("div", { class: "workers" });
  const all = controls ? crewPart(store) : { el: "", draw() {} };
  const retryAll = button("Retry all", () => store.ask("retry", { which: "all" }), { class: "small retry-all", hidden: true });
  const failed = stacked("failed");
  failed.append(store.live && index === 0 ? retryAll : "");
  const what = h("p", { class: "what" });
  const differs = h("p", { class: "differs" });
  const lost = h("p", { class: "lost", hidden: true });
  const inOrder = [stacked("delayed"), stacked("ready"), lane("reserved", workers, all.el), stacked("done"), failed];
  const el = h("div", { class: "side", role: "group" }, what, h("div", { class: "lanes" }, ...inOrder), lost, differs);
  const rows = new Map();

  function draw() {
    const side = store.sides[index];
    const { state, count } = store.seen(side);
    const now = store.now;
    const found = lanes(state, now, store.past ? undefined : (id) => side.hadRow.has(id) && !side.rows.has(id));
    setAttribute(el, "aria-label", side.driver);
    if (store.sides.length > 1 && what.dataset.told !== side.what) {
      what.dataset.told = side.what;
      what.replaceChildren(h("b", {}, side.driver), ` ${side.what}`);
    }
    for (const name of Object.keys(TITLES)) setText(counts[name], found[name].length.toLocaleString("en"));
    const effects = effectsOf(side, state, count);
    for (const name of Object.keys(SLOTS)) {
      const cards = found[name].slice(0, SLOTS[name]).map((seen) => card(seen, name, now, "", effects.get(seen)));
      stacks[name].draw(cards, found[name].length, TITLES[name].toLowerCase());
    }
    lost.hidden = !found.lost.length;
    if (found.lost.length) setText(lost, `Lost with the store: ${named(found.lost.map((seen) => seen.id))}`);
    drawWorkers(side, state, found.reserved, now);
    all.draw();
    retryAll.hidden = !found.failed.length;
    enable(retryAll, store.cannot);
    drawDifference(side, count);
  }

  function drawWorkers(side, state, reserved, now) {
    const names = side.seats.map((seat) => seat.name);
    if (reserved.some((job) => !names.includes(job.worker))) names.push("others");
    keyed(workers, names, (name) => name, makeRow, (row, name) => {
      const seat = store.past ? null : side.seats.find((one) => one.name === name);
      const hand = state.hands.get(name);
      const mine = reserved.filter((job) => job.worker === name || (name === "others" && !names.includes(job.worker)));
      const isHeld = (job) => name === "others" || (hand && hand.job === job.id && hand.attempt === job.attempts);
      const items = [...mine].sort((a, b) => isHeld(b) - isHeld(a)).map((job) => card(job, "reserved", now, isHeld(job) ? "" : "nobody works on it"));
      if (hand && !mine.some(isHeld)) items.unshift(ghost(state, hand, now));
      const away = awayOf(seat, state, name);
      setText(row.status, statusOf(seat, hand, away));
      setAttribute(row, "class", `worker ${away}`);
      row.stack.draw(items, items.length, `reserved by ${name}`);
      row.controls?.draw(seat, away);
    });
  }

  function makeRow(name) {
    const stack = cardList(store, 2, null);
    const status = h("span", { class: "status" });
    const number = Number(name.split(" ")[1]);
    const own = controls && number ? workerPart(store, number) : null;
    const row = h("div", own ? { role: "group", "aria-label": name } : {}, h("div", { class: "who" }, h("b", {}, name), status), stack.el, own?.el ?? null);
    rows.set(name, row);
    return Object.assign(row, { stack, status, controls: own });
  }

  function drawDifference(side, count) {
    const place = side.difference?.place;
    const shown = index > 0 && place !== undefined && place < count;
    const same = index > 0 ? `Same as ${store.first.driver} up to here: every event.` : "";
    setText(differs, shown ? `First difference, at event ${place + 1}: ${side.difference.why}` : same);
    setAttribute(differs, "class", `differs${shown ? " shown" : ""}`);
    setAttribute(el, "class", `side${shown ? " different" : ""}`);
  }
  return { el, draw };
}

/** Whether a worker is `crashed`, `paused`, or neither. */
function awayOf(seat, state, name) {
  if (!seat) return state.away.get(name) ?? "";
  return seat.gone ? "crashed" : seat.paused ? "paused" : "";
}

function statusOf(seat, hand, away) {
  if (away === "crashed") return "crashed";
  const has = seat?.ended ? "has run" : "holds";
  const does = hand ? (seat?.until != null ? `runs job ${hand.job}, until ${s(seat.until)}` : `${has} job ${hand.job}`) : away ? "" : "free";
  return [away, does].filter(Boolean).join(", ");
}

const UNDO = {
  crashed: ["Restart", "start the worker again, with no job in hand"],
  paused: ["Resume", "let the worker go on with the job that it holds"],
};

/** The buttons of one worker. */
function workerPart(store, number) {
  const name = `worker ${number}`;
  const act = (text, verb, about, className = "") =>
    button(text, () => store.ask(verb, { worker: number }), { "aria-label": `${text} ${name}`, "data-about": about, class: `small ${className}` });
  const step = act("Step", "step", "reserve the next job, run its handler and complete it; or do that with the job that it holds", "primary");
  const reserve = act("Reserve", "reserve", "take the next job and stop there");
  const complete = act("Complete", "complete", "run the handler of the job that it holds, then tell the store that it is done, however late");
  const crash = act("Crash", "crash", "vanish with the job that it holds; the store is not told");
  const pause = button("Pause", () => store.ask(undo ? "resume" : "pause", { worker: number }), { class: "small pause" });
  let undo = "";
  const draw = (seat, away) => {
    undo = UNDO[away] ?? "";
    const cannot = store.cannot || (away && `${name} ${away === "crashed" ? "has crashed: restart" : "is paused: resume"} it first`);
    enable(step, cannot);
    enable(reserve, cannot || (seat?.held ? `${name} holds job ${seat.held[0]} already: complete it, or let the worker crash` : ""));
    enable(complete, cannot || (seat?.held ? "" : `${name} holds no job: let it reserve one first`));
    enable(crash, store.cannot || (away === "crashed" ? `${name} has crashed already` : ""));
    const [text, about] = undo || ["Pause", "stand still, with the job that it holds"];
    pause.dataset.about = about;
    enable(pause, store.cannot);
    setText(pause, text);
    setAttribute(pause, "aria-label", `${text} ${name}`);
  };
  return { el: h("div", { class: "buttons" }, step, reserve, complete, crash, pause), draw };
}

/** What is done to all workers at once. */
function crewPart(store) {
  const acts = [
    button("Step all", () => store.ask("step_all"), { class: "small", "data-about": "let every worker take one step" }),
    button("Restart process", () => store.ask("restart"),
      { class: "small", "data-about": "every worker loses what it holds; the memory driver forgets its jobs" }),
    button("Restart server", () => store.ask("restart_server"),
      { class: "small", "data-about": "kill the store's server and start it again; what it keeps in memory only is lost" }),
  ];
  const draw = () => {
    for (const act of acts) enable(act, store.cannot);
    acts[2].hidden = !store.sides.some((side) => side.server);
  };
  return { el: h("div", { class: "buttons all" }, ...acts), draw };
}

/** The workers' buttons on their own, where they move several drivers at once, or where there are many. */
export function workersPart(store) {
  const grid = h("div", { class: "crew" });
  const all = crewPart(store);
  const draw = () => {
    all.draw();
    const side = store.first;
    keyed(grid, side.seats.map((seat) => seat.name), (name) => name, (name) => {
      const own = workerPart(store, Number(name.split(" ")[1]));
      return Object.assign(h("div", { role: "group", "aria-label": name, class: "one" }, h("b", {}, name), own.el), { own });
    }, (row, name) => {
      const seat = side.seats.find((one) => one.name === name);
      row.own.draw(seat, awayOf(seat));
    });
  };
  return { el: h("div", { class: "steps" }, grid, all.el), draw };
}
