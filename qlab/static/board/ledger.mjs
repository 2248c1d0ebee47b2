// What jobs did to the world, however often they ran.

import { known } from "./state.mjs";
import { s } from "./words.mjs";

const TIMES = ["", "once", "twice"];
export const times = (count) => TIMES[count] ?? `${count} times`;

export const isDouble = ([, , , , , effect]) => effect > 1;

/** Sum up a ledger as far as so many events have happened: `[at, job, amount, worker, events, effect]` each. */
export function ledger(all, count = Infinity) {
  const entries = all.filter((entry) => entry[4] < count);
  const sum = (some) => some.reduce((total, entry) => total + entry[2], 0);
  const twice = [...new Set(entries.filter(isDouble).map((entry) => entry[1]))].sort((a, b) => a - b);
  return { entries, balance: sum(entries), expected: sum(entries.filter((entry) => !isDouble(entry))), twice };
}

/** Say which jobs took effect once more, just before the event at a place; the ledger's `doubles` tell. */
export function tellDoubles(side, place) {
  return side.doubles.filter((entry) => entry[4] === place).map((entry) => {
    const [at, job, , worker, , effect] = entry;
    const before = side.ledger.slice(0, side.ledger.indexOf(entry)).findLast((one) => one[1] === job && one[5] === effect - 1);
    const { balance, expected } = ledger(side.ledger.slice(0, side.ledger.indexOf(entry) + 1));
    const first = before ? `${before[3] || "a worker"}'s run took effect at ${s(before[0])}, ` : "";
    return { at, text: `job ${job} ran ${times(effect)}: ${first}${worker || "a worker"}'s again at ${s(at)}; the balance is ${balance}, expected ${expected}` };
  });
}

/** Tell how often jobs took effect of which more than one effect is entered in the ledger, as far as so many events. */
export function effectsOf(side, state, count) {
  const doubles = side.doubles.filter((entry) => entry[4] < count);
  const jobs = doubles.length ? known(state) : [];
  return new Map(doubles.map(([, job, , , events, effect]) => [jobs.findLast((seen) => seen.id === job && seen.born <= events), effect]));
}
