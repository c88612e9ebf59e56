// The beam as a tree: a column for each step, with the words that were kept, ended and rejected.

import { h, percent, rove, shown, svg } from "./elements.js";

const WIDTH = 118, HEIGHT = 40, GAP = 34; // pixels of a node
const MOST = 10, REJECTED = 4; // rejected words are shown up to this rank, or to this many after the beam

// Up and down move in a column, left to the word before, right to a word that continues this one, or
// else to the nearest one of the next column.
function neighbour(node, key, all) {
  const { index, parent } = node.dataset, column = Number(node.dataset.column);
  const inColumn = (number) => all.filter((each) => Number(each.dataset.column) === number);
  const own = inColumn(column), step = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (step) return own[own.indexOf(node) + step];
  if (key === "ArrowLeft") return all.find((each) => each.dataset.index === parent);
  const next = inColumn(column + 1), following = next.filter((each) => each.dataset.parent === index);
  return following.find((each) => each.matches(".best")) ?? following[0] ?? next[Math.min(own.indexOf(node), next.length - 1)];
}

export class BeamView {
  constructor(panel) {
    this.panel = panel;
    this.showsRejected = true;
    this.element = h("section", { class: "beam", "aria-label": "Beam" });
  }

  show(analysis, chosen, { isRecorded, beam }) {
    const { activeElement: active } = document, focused = this.element.contains(active) ? active.dataset : null;
    const check = h("input", { type: "checkbox", "data-key": "rejected", checked: this.showsRejected, onchange: () => {
      this.showsRejected = check.checked;
      this.show(analysis, chosen, { isRecorded, beam });
    } });
    const best = new Set(chosen.steps.map((step) => step.node));
    const columns = this.columns(analysis.nodes, best, beam);
    const most = Math.max(1, ...columns.map((column) => column.length));
    const size = [columns.length * (WIDTH + GAP), most * HEIGHT];
    const edges = svg("svg", { viewBox: `0 0 ${size.join(" ")}`, width: size[0], height: size[1], "aria-hidden": "true" });
    const tree = h("div", { class: "tree", role: "group", "aria-label": "Words of the beam, step by step",
      style: { width: `${size[0]}px`, height: `${size[1]}px` } }, edges);
    const places = new Map();
    columns.forEach((column, x) => column.forEach(({ node, index }, y) => {
      const at = [x * (WIDTH + GAP), y * HEIGHT];
      places.set(index, at);
      if (places.has(node.parent)) edges.append(this.edge(places.get(node.parent), at, best.has(index), node.state));
      tree.append(this.node(analysis.nodes, node, index, at, best.has(index), isRecorded));
    }));
    rove(tree, "button", neighbour);
    const ranking = h("ol", { class: "ranking", "aria-label": "Translations and their scores" },
      analysis.hypotheses.slice(0, beam).map((each) => h("li", {}, this.finished(each, isRecorded))));
    if (!isRecorded) rove(ranking, "button");
    this.element.replaceChildren(
      h("div", { class: "bar-of-card" }, h("h3", {}, "The beam"),
        h("label", { class: "check" }, check, " Rejected words")),
      h("p", { class: "quiet" }, "Each column is a step. A number is the word's probability, and the second one the sum of log-probabilities so far. "
        + (isRecorded ? "" : "Choose a word to make the model go on from there.")),
      h("div", { class: "scroll" }, tree),
      ranking);
    if (focused) this.focus(focused, check);
  }

  // After a change the focus stays in its column, on the path of the translation.
  focus({ key, column }, check) {
    const path = [...this.element.querySelectorAll(".node.best")];
    const node = path.find((each) => each.dataset.column === column) ?? path.at(-1);
    (key ? check : node)?.focus();
  }

  // All kept words are shown, because others continue them, and all ended ones, which are translations.
  columns(nodes, best, beam) {
    const columns = [], most = Math.max(MOST, beam + REJECTED);
    nodes.forEach((node, index) => {
      if (node.state === "rejected" && !this.showsRejected) return;
      (columns[node.step] ??= []).push({ node, index });
    });
    return columns.map((column) => column.sort((a, b) => a.node.rank - b.node.rank)
      .filter(({ node, index }, y) => y < most || node.state !== "rejected" || best.has(index)));
  }

  edge([a, b], [c, d], isBest, state) {
    const x = a + WIDTH, y = b + HEIGHT / 2 - 3, v = d + HEIGHT / 2 - 3, middle = (x + c) / 2;
    return svg("path", { d: `M ${x} ${y} C ${middle} ${y} ${middle} ${v} ${c} ${v}`, fill: "none",
      class: `edge ${isBest ? "best" : state}` });
  }

  node(nodes, node, index, [left, top], isBest, isRecorded) {
    const probability = percent(Math.exp(node.logP)), total = node.total.toFixed(2);
    const label = `${shown(node.symbol)}, probability ${probability}, total ${total}, ${node.state}, step ${node.step + 1}`;
    return h("button", { type: "button", class: `node ${node.state}${isBest ? " best" : ""}`, "aria-label": label,
      "aria-disabled": isRecorded ? "true" : null, "data-index": index, "data-parent": node.parent, "data-column": node.step,
      style: { left: `${left}px`, top: `${top}px`, width: `${WIDTH}px` },
      onclick: () => isRecorded || this.panel.forcePath(this.path(nodes, index)) },
    h("span", { class: "name", dir: "auto", lang: this.panel.engine.languages.target }, shown(node.symbol)),
    h("span", { class: "number" }, `${probability} · ${total}`));
  }

  finished({ text, score, steps }, isRecorded) {
    const { target } = this.panel.engine.languages;
    const parts = [h("span", { dir: "auto", lang: text ? target : null }, text || "(nothing)"), h("span", { class: "number" }, score.toFixed(2))];
    return isRecorded ? h("div", {}, parts)
      : h("button", { type: "button", onclick: () => this.panel.forcePath(steps.map(({ id }) => id)) }, parts);
  }

  path(nodes, index) {
    const ids = [];
    for (let at = index; at >= 0; at = nodes[at].parent) ids.unshift(nodes[at].id);
    return ids;
  }
}
