// Links of words: from weights, as alignment/linking.py makes them, and against gold links.

// Weights between units to weights between words: the sum over a word's source units, and the mean
// over its target units. A unit of several source words is shared. EOS stays last on both sides.
export function mergeWeights(alpha, source, target) {
  const columns = alpha[0].length, shares = new Array(columns).fill(0);
  for (const units of source) for (const j of units) shares[j]++;
  const row = (rows) => {
    const mean = (j) => rows.reduce((sum, i) => sum + alpha[i][j], 0) / Math.max(rows.length, 1);
    const ofWord = (units) => units.reduce((sum, j) => sum + mean(j) / shares[j], 0);
    return [...source.map(ofWord), mean(columns - 1)];
  };
  return [...target.map(row), row([alpha.length - 1])];
}

// [source, target] of each target word: the source word of its largest weight, EOS left out.
// `alpha` has the rows of the target words, without that of EOS.
export function linksOf(alpha) {
  return alpha.flatMap((row, i) => {
    let best = -1;
    for (let j = 0; j < row.length - 1; j++) if (row[j] > 0 && (best < 0 || row[j] > row[best])) best = j;
    return best < 0 ? [] : [[best, i]];
  });
}

// 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), Och and Ney 2003
export function errorRate(links, sure, possible) {
  const keys = (list) => new Set(list.map(String));
  const S = keys(sure), P = keys([...sure, ...possible]);
  const inside = (set) => links.filter((link) => set.has(String(link))).length;
  const whole = links.length + S.size;
  return whole ? 1 - (inside(S) + inside(P)) / whole : 0;
}

export const pharaoh = (links) =>
  links.map((link) => link.join("-")).sort((a, b) => a.localeCompare(b, "en", { numeric: true })).join(" ");
