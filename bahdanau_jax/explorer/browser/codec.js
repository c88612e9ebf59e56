// One side of a model: ordinary text to units and ids, and back.

import { EOS } from "./model.js";
import { mosesTokenizer, mosesDetokenizer, words } from "./moses.js";
import { vocabulary } from "./vocabulary.js";

const spaced = (text) => words(text).join(" ");

export class Codec {
  constructor(data) {
    const { rules } = data;
    this.vocabulary = vocabulary(data.vocabulary);
    this.normal = data.unicode === "none" ? (text) => text : (text) => text.normalize(data.unicode);
    this.split = rules.tokenizes ? mosesTokenizer(rules) : spaced;
    this.join = rules.detokenizes ? mosesDetokenizer(rules) : spaced;
    this.lowercase = data.lowercase;
  }

  // The tokenised text as the model reads it.
  tokenize(line) {
    const text = this.split(this.normal(line));
    return this.lowercase ? text.toLowerCase() : text;
  }

  // {ids, units, written}: EOS last. `written` has each unit with the capitals of the line.
  encode(line) {
    const tokenised = this.tokenize(line);
    const units = this.vocabulary.units(tokenised);
    const cased = this.split(this.normal(line));
    return {
      ids: [...this.vocabulary.ids(tokenised), EOS],
      units: [...units, "</s>"],
      written: cased.length === tokenised.length ? recased(units, tokenised, cased) : units,
    };
  }

  // Ordinary text of symbols without EOS.
  write(symbols) {
    return this.join(this.vocabulary.write(symbols));
  }
}

// The same units, cut from text that differs in its capitals alone.
function recased(units, tokenised, cased) {
  let at = 0;
  return units.map((unit) => {
    const bare = unit.replace(/^▁/, "");
    const place = tokenised.indexOf(bare, at);
    if (place < 0 || !bare) return bare || unit;
    at = place + bare.length;
    return cased.slice(place, at);
  });
}
