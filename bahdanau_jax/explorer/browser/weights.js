// Packed weights (packed_weights.py) to parameters: base64 in the page, or a file of the server.

const BLOCK = 32; // numbers of a matrix that share a scale

export function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

function unpacked(scales, upper, lower, size) {
  const data = new Float32Array(size);
  for (let i = 0; i < size; i++) {
    const low = (lower[i >> 1] >> ((i & 1) << 2)) & 15;
    data[i] = (upper[i] * 16 + low) * scales[(i / BLOCK) | 0];
  }
  return data;
}

// The tree of parameters. `manifest` lists [dotted name, shape] in the order of the bytes.
export function parameters(bytes, manifest) {
  const tree = { attention: {}, initial_state: {}, target_embedding: {} };
  const buffer = bytes.byteOffset % 4 ? bytes.slice().buffer : bytes.buffer;
  let at = bytes.byteOffset % 4 ? 0 : bytes.byteOffset;
  const take = (Kind, count) => {
    const view = new Kind(buffer, at, count);
    at += view.byteLength;
    return view;
  };
  for (const [name, shape] of manifest) {
    const [rows, columns] = shape, path = name.split("."), leaf = path.pop();
    const place = path.reduce((node, key) => (node[key] ??= {}), tree);
    if (columns === undefined) place[leaf] = take(Float32Array, rows);
    else {
      const blocks = Math.ceil((rows * columns) / BLOCK);
      const scales = take(Float32Array, blocks), upper = take(Int16Array, blocks * BLOCK);
      const lower = take(Uint8Array, (blocks * BLOCK) / 2);
      place[leaf] = { data: unpacked(scales, upper, lower, rows * columns), rows, columns };
    }
  }
  return tree;
}
