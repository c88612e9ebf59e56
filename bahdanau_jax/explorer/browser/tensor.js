// Vectors are Float32Array; a matrix is {data, rows, columns}, row by row. Vectors multiply from the left.

const map = (x, f) => {
  const y = new Float32Array(x.length);
  for (let i = 0; i < y.length; i++) y[i] = f(x[i]);
  return y;
};

// x W. Four rows at a time: the result is then read and written a quarter as often.
export function multiply(x, { data, rows, columns }) {
  const y = new Float32Array(columns);
  let i = 0;
  for (; i + 3 < rows; i += 4) {
    const a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3];
    const p = i * columns, q = p + columns, r = q + columns, s = r + columns;
    for (let j = 0; j < columns; j++) {
      y[j] += a * data[p + j] + b * data[q + j] + c * data[r + j] + d * data[s + j];
    }
  }
  for (; i < rows; i++) {
    const a = x[i], p = i * columns;
    for (let j = 0; j < columns; j++) y[j] += a * data[p + j];
  }
  return y;
}

// W g, the gradient of x where that of x W is g.
export function multiplyBack(g, { data, rows, columns }) {
  const x = new Float32Array(rows);
  for (let i = 0; i < rows; i++) {
    const p = i * columns;
    let sum = 0;
    for (let j = 0; j < columns; j++) sum += data[p + j] * g[j];
    x[i] = sum;
  }
  return x;
}

// Matrices with the same rows, side by side.
export function beside(...matrices) {
  const rows = matrices[0].rows;
  const columns = matrices.reduce((sum, m) => sum + m.columns, 0);
  const data = new Float32Array(rows * columns);
  let at = 0;
  for (const m of matrices) {
    for (let i = 0; i < rows; i++) {
      data.set(m.data.subarray(i * m.columns, (i + 1) * m.columns), i * columns + at);
    }
    at += m.columns;
  }
  return { data, rows, columns };
}

export function transpose({ data, rows, columns }) {
  const turned = new Float32Array(data.length);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) turned[j * rows + i] = data[i * columns + j];
  }
  return { data: turned, rows: columns, columns: rows };
}

export function logSoftmax(x) {
  let top = -Infinity, sum = 0;
  for (let i = 0; i < x.length; i++) if (x[i] > top) top = x[i];
  for (let i = 0; i < x.length; i++) sum += Math.exp(x[i] - top);
  const shift = top + Math.log(sum);
  return map(x, (value) => value - shift);
}

export function concatenate(...parts) {
  const y = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    y.set(part, at);
    at += part.length;
  }
  return y;
}

export const ACTIVATIONS = { tanh: Math.tanh, relu: (a) => Math.max(a, 0) };

// The operations of the model. `taped` of tape.js has the same ones, with gradients.
export const plain = {
  constant: (x) => x,
  value: (x) => x,
  multiply,
  add: (a, b) => {
    const y = new Float32Array(a.length);
    for (let i = 0; i < y.length; i++) y[i] = a[i] + b[i];
    return y;
  },
  scale: (a, k) => map(a, (x) => k * x),
  product: (a, b) => {
    const y = new Float32Array(a.length);
    for (let i = 0; i < y.length; i++) y[i] = a[i] * b[i];
    return y;
  },
  // (1 − z) ∘ a + z ∘ b
  mix: (a, b, z) => {
    const y = new Float32Array(a.length);
    for (let i = 0; i < y.length; i++) y[i] = a[i] + z[i] * (b[i] - a[i]);
    return y;
  },
  tanh: (x) => map(x, Math.tanh),
  relu: (x) => map(x, ACTIVATIONS.relu),
  sigmoid: (x) => map(x, (a) => 1 / (1 + Math.exp(-a))),
  slice: (x, start, end) => x.subarray(start, end),
  concatenate,
  maxout: (x) => {
    const y = new Float32Array(x.length / 2);
    for (let i = 0; i < y.length; i++) y[i] = Math.max(x[2 * i], x[2 * i + 1]);
    return y;
  },
  // e_j = vᵀ f(query + key_j)
  additive: (query, keys, v, activation) => {
    const f = ACTIVATIONS[activation];
    return Float32Array.from(keys, (key) => {
      let sum = 0;
      for (let a = 0; a < v.length; a++) sum += v[a] * f(query[a] + key[a]);
      return sum;
    });
  },
  // e_j = queryᵀ key_j
  dots: (query, keys) =>
    Float32Array.from(keys, (key) => {
      let sum = 0;
      for (let a = 0; a < query.length; a++) sum += query[a] * key[a];
      return sum;
    }),
  // Softmax over the positions that `inside` holds; 0 elsewhere.
  softmax: (e, inside) => {
    const y = new Float32Array(e.length);
    let top = -Infinity, sum = 0;
    for (let j = 0; j < e.length; j++) if (inside(j) && e[j] > top) top = e[j];
    for (let j = 0; j < e.length; j++) if (inside(j)) sum += y[j] = Math.exp(e[j] - top);
    for (let j = 0; j < e.length; j++) y[j] = sum > 0 ? y[j] / sum : 0;
    return y;
  },
  // α_j exp(−(j − p)² / (2 σ²))
  gaussian: (alpha, p, sigma) =>
    alpha.map((a, j) => a * Math.exp(-((j - p[0]) ** 2) / (2 * sigma ** 2))),
  // Σ_j α_j h_j
  weighted: (alpha, vectors) => {
    const y = new Float32Array(vectors[0].length);
    for (let j = 0; j < vectors.length; j++) {
      const a = alpha[j], h = vectors[j];
      if (a !== 0) for (let i = 0; i < y.length; i++) y[i] += a * h[i];
    }
    return y;
  },
};
