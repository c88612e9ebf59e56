// Scores of source positions, e_j = score(query, key_j), and the weights α that they become.

import { transpose } from "./tensor.js";

const WINDOW = 10; // D of local attention

const itself = (ops, s) => s;
const everywhere = () => true;
const softmax = (ops, p, e) => ops.softmax(e, everywhere);

// The sum of both directions of an annotation, as wide as a decoder state.
function sumOfDirections(ops, p, h, size, directions) {
  const first = ops.slice(h, 0, size);
  return directions === 1 ? first : ops.add(first, ops.slice(h, size, 2 * size));
}

const additive = (activation) => ({
  key: (ops, p, h) => ops.multiply(h, p.U_a),
  query: (ops, s, p) => ops.multiply(s, p.W_a),
  score: (ops, p, query, keys) => ops.additive(query, keys, p.v_a, activation),
  weights: softmax,
});

const dot = {
  key: sumOfDirections,
  query: itself,
  score: (ops, p, query, keys) => ops.dots(query, keys),
  weights: softmax,
};

const general = {
  ...dot,
  prepare: (p) => ({ ...p, turned: transpose(p.W) }),
  key: (ops, p, h) => ops.multiply(h, p.turned),
};

export const SCORES = {
  additive: additive("tanh"),
  additive_relu: additive("relu"),
  // Each key gets V_c times the sum of its position's weights so far (Tu et al. 2016).
  additive_coverage: {
    ...additive("tanh"),
    prepare: (p) => ({ ...p, row: { data: p.V_c, rows: 1, columns: p.V_c.length } }),
    covered: (ops, p, keys, coverage) =>
      keys.map((key, j) => ops.add(key, ops.multiply(ops.slice(coverage, j, j + 1), p.row))),
  },
  dot,
  scaled_dot: {
    ...dot,
    score: (ops, p, query, keys) => {
      return ops.scale(ops.dots(query, keys), 1 / Math.sqrt(ops.value(query).length));
    },
  },
  general,
  // Softmax around position i, at most the last one (Luong et al., local-m).
  local_m: {
    ...general,
    weights: (ops, p, e, s, i) => {
      const centre = Math.min(i, ops.value(e).length - 1);
      return ops.softmax(e, (j) => Math.abs(j - centre) <= WINDOW);
    },
  },
  // Softmax around a predicted position, times a Gaussian (local-p). It is not normalised again.
  local_p: {
    ...general,
    weights: (ops, p, e, s) => {
      const place = ops.sigmoid(ops.multiply(ops.tanh(ops.multiply(s, p.W_p)), p.v_p));
      const centre = ops.scale(place, ops.value(e).length);
      const at = ops.value(centre)[0];
      const alpha = ops.softmax(e, (j) => Math.abs(j - at) <= WINDOW);
      return ops.gaussian(alpha, centre, WINDOW / 2);
    },
  },
  // The fixed context of RNNencdec: the last position alone.
  none: {
    key: itself,
    query: itself,
    score: (ops, p, query, keys) => ops.constant(new Float32Array(keys.length)),
    weights: (ops, p, e) => {
      const last = ops.value(e).length - 1;
      return ops.softmax(e, (j) => j === last);
    },
  },
};
