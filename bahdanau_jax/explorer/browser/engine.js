// A model of the page: sentences to analyses. A recorded one has only the analyses of Python.

import { analyse, partial, recorded, replaceUnknown } from "./analysis.js";
import { Codec } from "./codec.js";
import { attribution } from "./gradients.js";
import { Model, EOS, START } from "./model.js";
import { Search } from "./search.js";
import { logSoftmax } from "./tensor.js";
import { parameters } from "./weights.js";

// Changes of attention at a step, by the names that the page's address has.
const CHANGES = {
  all: (alpha) => alpha.map(() => 1 / alpha.length),
  none: (alpha) => alpha.map(() => 0),
};

// `changes`: {step or "*": "all", "none", or the number of a source position}
export function changeOf(changes) {
  if (!Object.keys(changes).length) return null;
  return (alpha, step) => {
    const chosen = changes[step] ?? changes["*"];
    if (chosen === undefined) return null;
    if (CHANGES[chosen]) return CHANGES[chosen](alpha);
    const place = Number(chosen);
    return place < alpha.length ? alpha.map((_, j) => (j === place ? 1 : 0)) : null;
  };
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class Engine {
  constructor(data, bytes) {
    Object.assign(this, { data, name: data.name, isRecorded: data.recorded !== null });
    this.source = new Codec(data.source);
    this.target = new Codec(data.target);
    this.model = this.isRecorded ? null : new Model(data.config, parameters(bytes, data.manifest));
  }

  memory(ids) {
    return this.model.encode(this.model.embed(ids));
  }

  // `settings`: {beam, prefix, changes}; `onStep` sees the best hypothesis after each step.
  async translate(line, settings, onStep = null, wait = 0) {
    const source = this.source.encode(line);
    const options = { ...this.data.decoding, beam_size: settings.beam, prefix: settings.prefix,
      change: changeOf(settings.changes) };
    if (source.ids.length === 1) return { source: [], written: [], nodes: [], hypotheses: [] };
    const memory = this.memory(source.ids);
    let search = new Search(this.model, memory, options);
    while (!search.done) {
      search.advance();
      if (onStep) {
        onStep(partial(search, this.target, source));
        await pause(wait);
      }
    }
    if (options.ban_unk && !search.finished.length) {
      const free = new Search(this.model, memory, { ...options, ban_unk: false });
      while (!free.done) free.advance();
      if (free.finished.length) search = free;
    }
    return analyse(search, this.target, source);
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

  // Rows of gradient times input; `onRow` gets the number of finished rows.
  async attribute(line, ids, changes, onRow = () => {}) {
    const rows = [];
    for (const row of attribution(this.model, this.source.encode(line).ids, ids, changeOf(changes))) {
      rows.push(row);
      onRow(rows.length);
      await pause(0);
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

  // The id of a word of the target's vocabulary; null for an unknown one.
  wordId(word) {
    const id = this.target.vocabulary.id(word);
    return this.target.vocabulary.symbol(id) === word && id !== EOS ? id : null;
  }
}
