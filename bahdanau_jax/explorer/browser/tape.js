// Reverse-mode differentiation: the operations of tensor.js on nodes {value, gradient}. A node that
// depends on no variable has no gradient, and the backward pass leaves it out.

import { plain, multiplyBack, logSoftmax } from "./tensor.js";

export class Tape {
  constructor() {
    this.nodes = [];
    this.ops = operations(this);
  }

  variable(value) {
    return this.record(value, [], null, true);
  }

  record(value, inputs, back, isVariable = false) {
    const needed = isVariable || inputs.some((input) => input.needed);
    const node = { value, needed, gradient: null, back: needed ? back : null, index: this.nodes.length };
    if (needed) this.nodes.push(node);
    return node;
  }

  // The gradient of a node of one number with respect to all nodes before it.
  backward(node) {
    for (const each of this.nodes) each.gradient = null;
    node.gradient = new Float32Array([1]);
    for (let i = node.index; i >= 0; i--) {
      const { gradient, back } = this.nodes[i];
      if (gradient && back) back(gradient);
    }
  }
}

function give(node, gradient) {
  if (!node.needed) return;
  if (!node.gradient) node.gradient = Float32Array.from(gradient);
  else for (let i = 0; i < gradient.length; i++) node.gradient[i] += gradient[i];
}

const times = (a, b) => plain.product(a, b);

const operations = (tape) => ({
  constant: (value) => ({ value, needed: false }),
  value: (node) => node.value,
  ...arithmetic(tape),
  ...activations(tape),
  ...shapes(tape),
  ...scores(tape),
  ...distributions(tape),
  ...sums(tape),
});

function arithmetic(tape) {
  return {
    multiply: (x, W) =>
      tape.record(plain.multiply(x.value, W), [x], (g) => give(x, multiplyBack(g, W))),
    add: (a, b) =>
      tape.record(plain.add(a.value, b.value), [a, b], (g) => {
        give(a, g);
        give(b, g);
      }),
    scale: (a, k) => tape.record(plain.scale(a.value, k), [a], (g) => give(a, plain.scale(g, k))),
    product: (a, b) =>
      tape.record(times(a.value, b.value), [a, b], (g) => {
        give(a, times(g, b.value));
        give(b, times(g, a.value));
      }),
    mix: (a, b, z) =>
      tape.record(plain.mix(a.value, b.value, z.value), [a, b, z], (g) => {
        give(a, g.map((d, i) => d * (1 - z.value[i])));
        give(b, g.map((d, i) => d * z.value[i]));
        give(z, g.map((d, i) => d * (b.value[i] - a.value[i])));
      }),
  };
}

function activations(tape) {
  // An operation on one vector, with its derivative from (input, output).
  const each = (name, derivative) => (x) => {
    const y = plain[name](x.value);
    return tape.record(y, [x], (g) => give(x, g.map((d, i) => d * derivative(x.value[i], y[i]))));
  };
  return {
    tanh: each("tanh", (x, y) => 1 - y * y),
    relu: each("relu", (x) => (x > 0 ? 1 : 0)),
    sigmoid: each("sigmoid", (x, y) => y * (1 - y)),
    maxout: (x) =>
      tape.record(plain.maxout(x.value), [x], (g) => {
        const whole = new Float32Array(x.value.length);
        for (let i = 0; i < g.length; i++) {
          const first = (Math.sign(x.value[2 * i] - x.value[2 * i + 1]) + 1) / 2;
          whole[2 * i] = first * g[i];
          whole[2 * i + 1] = (1 - first) * g[i];
        }
        give(x, whole);
      }),
  };
}

function shapes(tape) {
  return {
    slice: (x, start, end) =>
      tape.record(plain.slice(x.value, start, end), [x], (g) => {
        const whole = new Float32Array(x.value.length);
        whole.set(g, start);
        give(x, whole);
      }),
    concatenate: (...parts) =>
      tape.record(plain.concatenate(...parts.map((part) => part.value)), parts, (g) => {
        let at = 0;
        for (const part of parts) give(part, g.subarray(at, (at += part.value.length)));
      }),
  };
}

const SLOPES = { tanh: (x) => 1 - Math.tanh(x) ** 2, relu: (x) => (x > 0 ? 1 : 0) };
const values = (nodes) => nodes.map((node) => node.value);

function scores(tape) {
  return {
    additive: (query, keys, v, activation) =>
      tape.record(
        plain.additive(query.value, values(keys), v, activation), [query, ...keys], (g) => {
          const ofQuery = new Float32Array(v.length);
          keys.forEach((key, j) => {
            const slope = (_, a) => g[j] * v[a] * SLOPES[activation](query.value[a] + key.value[a]);
            const ofKey = v.map(slope);
            give(key, ofKey);
            for (let a = 0; a < v.length; a++) ofQuery[a] += ofKey[a];
          });
          give(query, ofQuery);
        }),
    dots: (query, keys) =>
      tape.record(plain.dots(query.value, values(keys)), [query, ...keys], (g) => {
        give(query, plain.weighted(g, values(keys)));
        keys.forEach((key, j) => give(key, plain.scale(query.value, g[j])));
      }),
  };
}

// Weights of positions, and the log-probability of a word.
function distributions(tape) {
  return {
    softmax: (e, inside) => {
      const alpha = plain.softmax(e.value, inside);
      return tape.record(alpha, [e], (g) => {
        const mean = alpha.reduce((sum, a, j) => sum + a * g[j], 0);
        give(e, alpha.map((a, j) => a * (g[j] - mean)));
      });
    },
    gaussian: (alpha, p, sigma) => {
      const factor = plain.gaussian(new Float32Array(alpha.value.length).fill(1), p.value, sigma);
      return tape.record(times(alpha.value, factor), [alpha, p], (g) => {
        give(alpha, times(g, factor));
        const slope = (sum, d, j) =>
          sum + (d * alpha.value[j] * factor[j] * (j - p.value[0])) / sigma ** 2;
        give(p, new Float32Array([g.reduce(slope, 0)]));
      });
    },
    // log p of one word, from the logits of all
    logProbability: (logits, id) => {
      const logP = logSoftmax(logits.value);
      return tape.record(logP.subarray(id, id + 1), [logits], (g) =>
        give(logits, logP.map((l, i) => g[0] * ((i === id ? 1 : 0) - Math.exp(l)))));
    },
  };
}

function sums(tape) {
  return {
    weighted: (alpha, vectors) =>
      tape.record(plain.weighted(alpha.value, values(vectors)), [alpha, ...vectors], (g) => {
        give(alpha, plain.dots(g, values(vectors)));
        vectors.forEach((h, j) => give(h, plain.scale(g, alpha.value[j])));
      }),
  };
}
