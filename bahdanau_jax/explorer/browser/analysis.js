// What the views show of a search, the same for a model in the page and for a recorded search:
//
//   source      units of the source, </s> last        written   the same with the line's capitals
//   hypotheses  best first: {text, score, finished, steps: [{symbol, id, logP, alpha, likeliest}]}
//   nodes       the tree: {parent, step, rank, symbol, id, logP, total, state}, where
//               state is "kept", "ended" or "rejected", and parent an index into nodes, or -1;
//               those of a recorded search have no id

export function analyse(search, codec, source) {
  const nodes = [], places = new Map([[search.root, -1]]);
  let level = [search.root];
  while (level.length) {
    const next = level.flatMap((node) => node.children);
    for (const node of next) {
      const state = node.ended ? "ended" : node.kept ? "kept" : "rejected";
      places.set(node, nodes.length);
      nodes.push({ parent: places.get(node.parent), step: node.length - 1, rank: node.rank,
        symbol: codec.vocabulary.symbol(node.token), id: node.token, logP: node.logP,
        total: node.total, state });
    }
    level = next;
  }
  const hypotheses = search.ranked().map((found) => hypothesis(found, codec, places));
  return { source: source.units, written: source.written, nodes, hypotheses };
}

function hypothesis({ steps, score, finished }, codec, places) {
  const shown = steps.map(({ token, logP, alpha, likeliest, node }) => ({
    symbol: codec.vocabulary.symbol(token),
    id: token,
    logP,
    alpha,
    node: places?.get(node) ?? -1,
    likeliest: likeliest.map((each) => ({ ...each, symbol: codec.vocabulary.symbol(each.token) })),
  }));
  const words = shown.map((step) => step.symbol).slice(0, finished ? -1 : undefined);
  return { text: codec.write(words), score, finished, steps: shown };
}

// The best hypothesis so far, for the words as they come.
export const partial = (search, codec, source) => ({
  source: source.units,
  written: source.written,
  nodes: [],
  hypotheses: search.live.slice(0, 1).map((tip) => hypothesis(search.read(tip), codec, null)),
});

// A recorded search, whose attention weights are arrays of numbers instead of typed ones.
export function recorded(data) {
  const steps = (list) => list.map((step) => ({ ...step, alpha: Float32Array.from(step.alpha) }));
  return {
    ...data,
    hypotheses: data.hypotheses.map((each) => ({ ...each, steps: steps(each.steps) })),
  };
}

// The text with the source word of the largest weight in place of each UNK.
export function replaceUnknown(found, { written }, codec) {
  const { steps, finished } = found;
  const words = (finished ? steps.slice(0, -1) : steps).map(({ symbol, alpha }) => {
    if (symbol !== "<unk>" || !written.length) return symbol;
    const place = alpha.subarray(0, written.length).reduce((best, a, j, all) => (a > all[best] ? j : best), 0);
    return alpha[place] > 0 ? written[place] : symbol;
  });
  return codec.write(words);
}
