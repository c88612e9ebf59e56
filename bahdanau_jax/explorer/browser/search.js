// Beam search as decoding/search.py does it, with a record of every continuation that it weighed.

import { EOS, UNK, START } from "./model.js";
import { logSoftmax } from "./tensor.js";

export const LIKELIEST = 8; // words of a step that are kept to be shown
const UNSEEN = 1e-6;

const PENALTIES = {
  none: () => 1,
  average: (length) => length,
  wu: (length, alpha) => ((5 + length) / 6) ** alpha,
};

// Σ_j log min(attended_j, 1) over the source's words, EOS left out.
const coverage = (attended) =>
  attended.slice(0, -1).reduce((sum, a) => sum + Math.log(Math.min(Math.max(a, UNSEEN), 1)), 0);

// The indices of the largest numbers, best first; ties go to the lower index.
export function largest(values, count) {
  const best = [];
  let worst = -Infinity;
  for (let i = 0; i < values.length; i++) {
    if (best.length === count && !(values[i] > worst)) continue;
    let at = best.length;
    while (at > 0 && values[best[at - 1]] < values[i]) at--;
    best.splice(at, 0, i);
    if (best.length > count) best.pop();
    worst = values[best.at(-1)];
  }
  return best;
}

export class Search {
  // `options`: the fields of the configuration's section "decoding", `prefix` (ids of the first
  // words), `most_steps` (whatever max_ratio allows), and `change` (see Model.step).
  constructor(model, memory, options) {
    Object.assign(this, { model, memory, options });
    const positions = memory.annotations.length, { prefix = [], most_steps: most = Infinity } = options;
    this.limit = Math.max(Math.min(Math.ceil(options.max_ratio * positions), most), prefix.length + 1);
    this.minimum = Math.min(Math.floor(options.min_ratio * positions), this.limit - 1);
    this.width = options.beam_size;
    this.root = { total: 0, length: 0, token: START, state: model.start(memory), parent: null,
      attended: new Float32Array(positions), children: [] };
    this.live = [this.root];
    this.finished = [];
    this.time = 0;
    this.done = false;
  }

  score(node) {
    const { length_normalization: kind, alpha, coverage: weight } = this.options;
    const covered = weight ? weight * coverage(node.attended) : 0;
    return node.total / PENALTIES[kind](Math.max(node.length, 1), alpha) + covered;
  }

  allowed(logP) {
    const { prefix = [], ban_unk: banned } = this.options;
    const values = Float32Array.from(logP);
    if (this.time < prefix.length) {
      const word = prefix[this.time];
      values.fill(-Infinity);
      values[word] = logP[word];
      return values;
    }
    if (banned) values[UNK] = -Infinity;
    if (this.time < this.minimum) values[EOS] = -Infinity;
    return values;
  }

  // Extend the live hypotheses by one word.
  advance() {
    const K = this.options.beam_size, candidates = [];
    for (const [place, node] of this.live.entries()) {
      const { state, alpha, logits } =
        this.model.step(this.memory, node.state, node.token, this.options.change);
      const logP = logSoftmax(logits), values = this.allowed(logP);
      node.likeliest = largest(logP, LIKELIEST).map((token) => ({ token, logP: logP[token] }));
      node.alpha = alpha;
      const attended = node.attended.map((a, j) => a + alpha[j]);
      for (const token of largest(values, 2 * K)) {
        if (values[token] === -Infinity) continue;
        candidates.push({ total: node.total + values[token], logP: logP[token], token, parent: node,
          length: node.length + 1, state, attended, children: [], place });
      }
    }
    candidates.sort((a, b) => b.total - a.total || a.place - b.place || a.token - b.token);
    this.keep(candidates.slice(0, 2 * K), K);
  }

  keep(candidates, K) {
    const inside = this.width, live = [];
    const shrinks = this.options.shrink || K === 1; // greedy search ends at its first EOS
    candidates.forEach((node, rank) => {
      node.rank = rank;
      node.parent.children.push(node);
      if (node.token === EOS) {
        if (rank >= inside) return;
        node.ended = true;
        this.finished.push(node);
        if (shrinks) this.width--;
      } else if (live.length < K) live.push(node);
    });
    this.live = live.slice(0, shrinks ? Math.max(this.width, 0) : K);
    for (const node of this.live) node.kept = true;
    this.finished.sort((a, b) => this.score(b) - this.score(a));
    this.finished.length = Math.min(this.finished.length, K);
    this.time++;
    this.done = this.time >= this.limit || !this.live.length || this.isDecided(K);
  }

  // Whether no live hypothesis can still beat the worst finished one.
  isDecided(K) {
    if (this.finished.length < K) return false;
    const { length_normalization: kind, alpha } = this.options;
    const total = Math.max(...this.live.map((node) => node.total));
    const lengths = [Math.max(this.time + 1, this.minimum + 1), this.limit];
    const attainable = Math.max(...lengths.map((length) => total / PENALTIES[kind](length, alpha)));
    return attainable <= this.score(this.finished.at(-1));
  }

  // The hypotheses, best first: finished ones, or the live ones where none is finished.
  ranked() {
    const tips = this.finished.length ? this.finished : [...this.live];
    return tips.sort((a, b) => this.score(b) - this.score(a)).map((tip) => this.read(tip));
  }

  // The history of a hypothesis: one entry for each token.
  read(tip) {
    const steps = [];
    for (let node = tip; node.parent; node = node.parent) {
      steps.unshift({ token: node.token, logP: node.logP, alpha: node.parent.alpha, node,
        likeliest: node.parent.likeliest });
    }
    return { steps, score: this.score(tip), finished: tip.token === EOS };
  }
}
