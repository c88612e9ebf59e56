// A model of the page: sentences to analyses. A recorded one has only the analyses of Python.

import { analyse, partial, recorded, replaceUnknown } from "./analysis.js";
import { Codec } from "./codec.js";
import { attribution } from "./gradients.js";
import { Model, START, UNK } from "./model.js";
import { Search } from "./search.js";
import { logSoftmax } from "./tensor.js";
import { parameters } from "./weights.js";

// Changes of attention at a step, by the names that the page's address has.
const CHANGES = {
  all: (alpha) => alpha.map(() => 1 / alpha.length),
  none: (alpha) => alpha.map(() => 0),
};

// The change at a step; null where the attention is the model's own, which "own" says against "*".
export function changeAt(changes, step) {
  const chosen = changes[step] ?? changes["*"] ?? "own";
  return chosen === "own" ? null : chosen;
}

// `changes`: {step or "*": "all", "none", "own", or the number of a source position}
export function changeOf(changes) {
  if (!Object.keys(changes).length) return null;
  return (alpha, step) => {
    const chosen = changeAt(changes, step);
    if (chosen === null) return null;
    if (CHANGES[chosen]) return CHANGES[chosen](alpha);
    const place = Number(chosen);
    return place < alpha.length ? alpha.map((_, j) => (j === place ? 1 : 0)) : null;
  };
}

export const LONGEST = 200; // tokens of a sentence that the page translates, without its end
export const MOST_CHARACTERS = 2000; // of such a sentence: the time to cut one word into pieces grows with its square
export const MOST_STEPS = 600; // tokens of a translation, whatever max_ratio allows
const MOST_PAIRS = 10_000; // pairs of a target and a source token whose gradients are computed
const SLICE = 30; // milliseconds of work, after which the page may react
const ANIMATED = 40; // words that come one by one; further ones come as they are computed

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// An analysis without a translation; `refusal` says why there is none.
export const untranslated = (refusal = "") => ({ source: [], written: [], nodes: [], hypotheses: [], refusal });

function tooLong(count, units, most) {
  const [has, allowed] = [count, most].map((number) => number.toLocaleString("en"));
  return untranslated(`This sentence has ${has} ${units}, and the page translates at most ${allowed}: `
    + "shorten it, or translate it with bahdanau translate.");
}

export class Engine {
  constructor(data, bytes) {
    Object.assign(this, { data, name: data.name, isRecorded: data.recorded !== null });
    this.source = new Codec(data.source);
    this.target = new Codec(data.target);
    this.model = this.isRecorded ? null : new Model(data.config, parameters(bytes, data.manifest));
  }

  // The codes of both languages, by which a screen reader chooses its voice.
  get languages() {
    const { source, target } = this.data;
    return { source: source.rules.language, target: target.rules.language };
  }

  memory(ids) {
    return this.model.encode(this.model.embed(ids));
  }

  // `settings`: {beam, prefix, changes}. `watch`, all of it optional: `isWanted` ends the search once
  // it is false; `onStep` sees the best hypothesis after each step and waits `wait` milliseconds;
  // `onSlice` gets the number of finished steps from time to time. Null where the search was ended.
  async translate(line, settings, watch = {}) {
    if (line.length > MOST_CHARACTERS) return tooLong(line.length, "characters", MOST_CHARACTERS);
    const source = this.source.encode(line), tokens = source.ids.length - 1;
    if (tokens === 0) return untranslated();
    if (tokens > LONGEST) return tooLong(tokens, "tokens", LONGEST);
    const options = { ...this.data.decoding, beam_size: settings.beam, prefix: this.known(settings.prefix),
      change: changeOf(settings.changes), most_steps: MOST_STEPS };
    const memory = this.memory(source.ids), search = new Search(this.model, memory, options);
    if (!await this.finish(search, source, watch)) return null;
    if (!options.ban_unk || search.finished.length) return analyse(search, this.target, source);
    const free = new Search(this.model, memory, { ...options, ban_unk: false });
    if (!await this.finish(free, source, { ...watch, onStep: null })) return null;
    return analyse(free.finished.length ? free : search, this.target, source);
  }

  // Extend a search to its end, in slices between which the page reacts; whether it was wanted so long.
  async finish(search, source, { isWanted = () => true, onStep = null, wait = 0, onSlice = null }) {
    let since = performance.now();
    while (!search.done) {
      if (!isWanted()) return false;
      search.advance();
      const isShown = onStep && search.time <= ANIMATED;
      if (!isShown && performance.now() - since < SLICE) continue;
      onStep?.(partial(search, this.target, source));
      onSlice?.(search.time);
      await pause(isShown ? wait : 0);
      since = performance.now();
    }
    return isWanted();
  }

  // The ids of a prefix up to the first one that no word has: anybody may have written the address.
  known(ids) {
    const end = ids.findIndex((id) => id >= this.target.vocabulary.size);
    return ids.slice(0, Math.min(end < 0 ? ids.length : end, MOST_STEPS));
  }

  recordedAt(index) {
    const data = this.data.recorded[index];
    return data ? recorded(data) : null;
  }

  // log p of all words [T][V] and α [T][S] of given ids, EOS counted.
  force(sourceIds, targetIds, changes = {}) {
    const memory = this.memory(sourceIds), change = changeOf(changes);
    let state = this.model.start(memory), token = START;
    return targetIds.map((id) => {
      const { state: next, alpha, logits } = this.model.step(memory, state, token, change);
      const before = state;
      [state, token] = [next, id];
      return { logP: logSoftmax(logits), alpha, before, after: next };
    });
  }

  // Why the page computes no gradients of a translation; "" where it does.
  obstacleToGradients({ source }, ids) {
    const pairs = source.length * ids.length;
    return pairs <= MOST_PAIRS ? "" : `Gradients of ${ids.length} × ${source.length} tokens would take too long: `
      + `the page computes those of at most ${MOST_PAIRS.toLocaleString("en")} pairs.`;
  }

  // Rows of gradient times input; `onRow` gets the number of finished rows. Null once `isWanted` is false.
  async attribute(line, ids, changes, { onRow = () => {}, isWanted = () => true } = {}) {
    const rows = [];
    for (const row of attribution(this.model, this.source.encode(line).ids, ids, changeOf(changes))) {
      rows.push(row);
      onRow(rows.length);
      await pause(0);
      if (!isWanted()) return null;
    }
    return rows;
  }

  // The ids of a reference, EOS last.
  referenceIds(text) {
    return this.target.encode(text).ids;
  }

  replaced(hypothesis, analysis) {
    return replaceUnknown(hypothesis, analysis, this.target);
  }

  // The ids of typed text, which may have the page's mark of a word's beginning; none where one is unknown.
  typedIds(text) {
    const ids = this.referenceIds(text.replace(/[␣▁]/g, " ")).slice(0, -1);
    return ids.includes(UNK) ? [] : ids;
  }
}
