// The model of one sentence: the encoder, and a step of the decoder. `ops` are the operations of
// tensor.js, or those of a Tape, which also give gradients.

import { plain, transpose } from "./tensor.js";
import { CELLS } from "./cells.js";
import { SCORES } from "./attention.js";

export const EOS = 0;
export const UNK = 1;
export const START = -1;

const READOUTS = {
  maxout: (ops, t) => ops.maxout(t),
  tanh: (ops, t) => ops.tanh(t),
  linear: (ops, t) => t,
};

// The parts of a step, in the orders of orders.py. `update` is a step of the first or the second cell.
const ORDERS = {
  paper: ({ s }, update, look) => {
    const seen = look(s);
    return { s: update(s, seen.c), ...seen };
  },
  luong: ({ s, c }, update, look) => {
    const next = update(s, c);
    return { s: next, ...look(next) };
  },
  groundhog: ({ s, c }, update, look, isFirst) => {
    const next = isFirst ? s : update(s, c);
    return { s: next, ...look(next) };
  },
  // Its first cell reads the word before, and its second one the context.
  conditional: ({ s }, update, look) => {
    const between = update(s), seen = look(between);
    return { s: update(between, seen.c, true), ...seen };
  },
};

function embedding({ E, b }, id) {
  const size = E.columns;
  if (id === START) return new Float32Array(size);
  const x = E.data.subarray(id * size, (id + 1) * size);
  return b ? plain.add(x, b) : x;
}

export class Model {
  // `config` is the configuration's section "model"; `p` the parameters by their names.
  constructor(config, p) {
    this.config = config;
    this.p = p;
    const cell = (this.cell = CELLS[config.cell]);
    this.score = SCORES[config.attention];
    this.directions = Object.entries(p.encoder).map(([name, params]) => ({
      isBackward: name === "backward",
      W: cell.inputs(params, "W"),
      bias: cell.bias(params),
      recurrent: cell.prepare(params),
    }));
    this.directions.sort((a, b) => a.isBackward - b.isBackward);
    this.attention = this.score.prepare ? this.score.prepare(p.attention) : p.attention;
    const cells = p.decoder.second ? [p.decoder, p.decoder.second] : [p.decoder];
    this.cells = cells.map((params) => ({ bias: cell.bias(params), recurrent: cell.prepare(params) }));
    this.C = cell.inputs(cells.at(-1), "C");
    this.W = config.feed_previous ? cell.inputs(p.decoder, "W") : null;
    this.W_o = config.tied_embeddings ? transpose(p.target_embedding.E) : p.output.W_o;
    this.readsWords = config.feed_previous || config.readout_inputs.includes("y");
  }

  embed(ids) {
    return ids.map((id) => embedding(this.p.source_embedding, id));
  }

  // The memory of a sentence from its embedded words: annotations h_j, keys, and s_0.
  encode(x, ops = plain) {
    const size = this.config.hidden_size;
    const runs = this.directions.map(({ isBackward, W, bias, recurrent }) => {
      let h = ops.constant(new Float32Array(size));
      const states = new Array(x.length);
      for (let t = 0; t < x.length; t++) {
        const j = isBackward ? x.length - 1 - t : t;
        const inputs = ops.add(ops.multiply(x[j], W), ops.constant(bias));
        states[j] = h = this.cell.step(ops, h, inputs, recurrent);
      }
      return { isBackward, states, last: h };
    });
    const annotations = x.map((word, j) => {
      const parts = runs.map((run) => run.states[j]);
      if (this.config.word_annotations) parts.push(word);
      return parts.length > 1 ? ops.concatenate(...parts) : parts[0];
    });
    const keys = annotations.map((h) => this.score.key(ops, this.attention, h, size, runs.length));
    return { annotations, keys, initial: this.initial(ops, runs) };
  }

  initial(ops, runs) {
    const from = this.config.initial_state;
    if (from === "zero") return ops.constant(new Float32Array(this.config.hidden_size));
    const { last } = runs.find((run) => run.isBackward === (from === "backward"));
    const { W_s, b_s } = this.p.initial_state;
    return ops.tanh(ops.add(ops.multiply(last, W_s), ops.constant(b_s)));
  }

  start({ initial, annotations }, ops = plain) {
    const zeros = (length) => ops.constant(new Float32Array(length));
    const coverage = this.score.covered ? zeros(annotations.length) : null; // the sum of α so far
    return { s: initial, c: zeros(ops.value(annotations[0]).length), i: 0, coverage };
  }

  // The state after a step, with its α, and the logits of the next word. `change` maps α and the
  // number of the step to other weights, or is null.
  step(memory, state, token, change = null, ops = plain) {
    const { annotations } = memory;
    const { covered } = this.score;
    const keys = covered ? covered(ops, this.attention, memory.keys, state.coverage) : memory.keys;
    const y = this.readsWords ? ops.constant(embedding(this.p.target_embedding, token)) : null;
    let fed = ops.constant(this.cells[0].bias);
    if (this.W) fed = ops.add(fed, ops.multiply(y, this.W));
    const look = (s) => {
      const query = this.score.query(ops, s, this.attention);
      const e = this.score.score(ops, this.attention, query, keys);
      let alpha = this.score.weights(ops, this.attention, e, s, state.i);
      const given = change && change(ops.value(alpha), state.i);
      if (given) alpha = ops.constant(given);
      return { alpha, c: ops.weighted(alpha, annotations) };
    };
    const update = (s, c = null, isSecond = false) => {
      const { bias, recurrent } = this.cells[Number(isSecond)], read = isSecond ? ops.constant(bias) : fed;
      return this.cell.step(ops, s, c ? ops.add(read, ops.multiply(c, this.C)) : read, recurrent);
    };
    const after = ORDERS[this.config.order](state, update, look, token === START);
    const logits = this.readOut(ops, after.s, y, after.c);
    const coverage = covered ? ops.add(state.coverage, after.alpha) : null;
    return { state: { s: after.s, c: after.c, i: state.i + 1, coverage }, alpha: after.alpha, logits };
  }

  readOut(ops, s, y, c) {
    const { readout, output } = this.p;
    let t = ops.constant(readout.b_o);
    for (const [symbol, x, name] of [["s", s, "U_o"], ["y", y, "V_o"], ["c", c, "C_o"]]) {
      if (this.config.readout_inputs.includes(symbol)) t = ops.add(t, ops.multiply(x, readout[name]));
    }
    t = READOUTS[this.config.readout](ops, t);
    if (output.W_1) t = ops.multiply(t, output.W_1);
    return ops.add(ops.multiply(t, this.W_o), ops.constant(output.b_w));
  }
}

