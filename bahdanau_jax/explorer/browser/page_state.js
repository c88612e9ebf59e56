// The state of the page, and its form in the address after #, so that every state has a link.
//
//   s sentence   e number of the example   k beam   u replace UNK   g gold links   v attention, gradient or both
//   t step of the tour
//   and for each panel i: p prefix (ids), f forced steps, a changes of attention, w selected step

import { MOST_CHARACTERS } from "./engine.js";
import { words } from "./moses.js";

export const VIEWS = ["attention", "gradient", "both"];

const freshPanel = () => ({ prefix: [], forced: [], changes: {}, selected: null });

export function fresh(panels, beam) {
  return { sentence: "", example: 0, beam, unknown: false, gold: true, view: "attention", tour: 0,
    panels: Array.from({ length: panels }, freshPanel) };
}

// A sentence as the page's one line has it: with the white space of Python, to which U+FEFF does not belong.
export const oneLine = (text) => words(text).join(" ");

export function reset(state) {
  state.panels = state.panels.map(freshPanel);
}

const numbers = (text) => (text ?? "").split(".").filter((part) => /^\d+$/.test(part)).map(Number);

// A sentence of too many characters is left out: browsers limit addresses, and it is not translated.
export function write(state) {
  const isLinked = state.sentence.length <= MOST_CHARACTERS;
  const fields = new URLSearchParams({ ...(isLinked && { s: state.sentence }), k: state.beam });
  if (state.example) fields.set("e", state.example);
  if (state.unknown) fields.set("u", 1);
  if (!state.gold) fields.set("g", 0);
  if (state.view !== VIEWS[0]) fields.set("v", state.view);
  if (state.tour) fields.set("t", state.tour);
  state.panels.forEach(({ prefix, forced, changes, selected }, i) => {
    if (prefix.length) fields.set(`p${i}`, prefix.join("."));
    if (forced.length) fields.set(`f${i}`, forced.join("."));
    const changed = Object.entries(changes).map((pair) => pair.join(":"));
    if (changed.length) fields.set(`a${i}`, changed.join(","));
    if (selected !== null) fields.set(`w${i}`, selected);
  });
  return `#${fields}`;
}

// Whether two addresses have other sentences, examples, beams or changes of a translation.
export function isOtherTranslation(address, other) {
  const [one, two] = [address, other].map((each) =>
    [...new URLSearchParams(each.slice(1))].filter(([name]) => /^([ske]|[pfa]\d+)$/.test(name)).join("&"));
  return one !== two;
}

// Fields of another form are left out: anybody may have written the address. `isRecorded` says of
// each panel whether its translations are recorded ones, which have no changes, gradients or tour.
export function read(address, defaults, isRecorded) {
  const fields = new URLSearchParams(address.replace(/^#/, ""));
  const whole = (name, most, otherwise) => {
    const value = fields.get(name);
    return value !== null && /^\d{1,6}$/.test(value) && Number(value) <= most ? Number(value) : otherwise;
  };
  const state = { ...defaults, sentence: oneLine(fields.get("s") ?? defaults.sentence) };
  state.example = whole("e", 999_999, 0);
  state.beam = Math.max(1, whole("k", 50, defaults.beam));
  state.unknown = fields.get("u") === "1";
  state.gold = fields.get("g") !== "0";
  state.view = VIEWS.includes(fields.get("v")) && !isRecorded.every(Boolean) ? fields.get("v") : defaults.view;
  state.tour = isRecorded.some(Boolean) ? 0 : whole("t", 6, 0);
  state.panels = defaults.panels.map((_, i) => {
    const selected = whole(`w${i}`, 9999, null);
    if (isRecorded[i]) return { ...freshPanel(), selected };
    const pairs = (fields.get(`a${i}`) ?? "").split(",").map((pair) => pair.split(":"));
    const valid = pairs.filter(([step, how]) => /^(\d{1,4}|\*)$/.test(step) && /^(\d{1,4}|all|none|own)$/.test(how));
    return { prefix: numbers(fields.get(`p${i}`)), forced: numbers(fields.get(`f${i}`)),
      changes: Object.fromEntries(valid), selected };
  });
  return state;
}
