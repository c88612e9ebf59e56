// Recurrent cells. A cell has its inputs x (all products with its input matrices, biases added) and
// its state h. `inputs` gives the input matrix of a name, W or C; `bias` the bias of x.

import { beside, concatenate } from "./tensor.js";

const GATES = ["_z", "_r", ""]; // in the order of the columns of x

export const CELLS = {
  // h' = (1 − z) ∘ h + z ∘ tanh(x + U [r ∘ h]), z = σ(x_z + U_z h), r = σ(x_r + U_r h)
  gru: {
    inputs: (p, name) => beside(...GATES.map((gate) => p[name + gate])),
    bias: (p) => concatenate(...GATES.map((gate) => p["b" + gate] ?? new Float32Array(p.b.length))),
    prepare: (p) => ({ gates: beside(p.U_z, p.U_r), U: p.U, size: p.b.length }),
    step: (ops, h, x, { gates, U, size }) => {
      const open = ops.sigmoid(ops.add(ops.slice(x, 0, 2 * size), ops.multiply(h, gates)));
      const z = ops.slice(open, 0, size), r = ops.slice(open, size, 2 * size);
      const inner = ops.multiply(ops.product(r, h), U);
      return ops.mix(h, ops.tanh(ops.add(ops.slice(x, 2 * size, 3 * size), inner)), z);
    },
  },
  // h' = tanh(x + U h)
  tanh: {
    inputs: (p, name) => p[name],
    bias: (p) => p.b,
    prepare: (p) => p,
    step: (ops, h, x, { U }) => ops.tanh(ops.add(x, ops.multiply(h, U))),
  },
  // h' = tanh(M_x + M_h), each a layer with a ReLU; x is the first layer of M_x before its ReLU
  mlp: {
    inputs: (p, name) => p[name],
    bias: (p) => p.b,
    prepare: (p) => p,
    step: (ops, h, x, p) => {
      const bias = (y, b) => ops.add(y, ops.constant(b));
      const ofX = bias(ops.multiply(ops.relu(x), p.W_2), p.b_2);
      const ofH = ops.relu(bias(ops.multiply(h, p.U), p.b_u));
      return ops.tanh(ops.add(ofX, bias(ops.multiply(ofH, p.U_2), p.b_u2)));
    },
  },
};
