// Two lines of words with links between them; two columns where the lines would be too long.

import { h, percent, rove, shown, svg, textWidth } from "./elements.js";
import { changeAt } from "./engine.js";

const FAINTEST = 0.03; // weights below it get no link

export class LinksView {
  constructor(panel) {
    this.panel = panel;
    this.element = h("div", { class: "links" });
  }

  show(analysis, chosen, { selected, forced, changes }) {
    const words = () => [...this.element.querySelectorAll(".word")], focused = words().indexOf(document.activeElement);
    this.alpha = chosen.steps.map((step) => step.alpha);
    const { isRecorded, languages } = this.panel.engine;
    this.source = analysis.source.map((symbol, j) => this.word(symbol, languages.source, { class: "word source",
      "aria-label": isRecorded ? null : `${shown(symbol)}. Look here only.`,
      onclick: () => this.panel.look(j), onpointerenter: () => this.panel.highlight(null, j), onfocus: () => this.panel.highlight(null, j) }));
    this.target = chosen.steps.map((step, i) => {
      const p = Math.exp(step.logP);
      const isForced = forced.includes(i), isChanged = changeAt(changes, i) !== null;
      const state = `${isForced ? ", chosen by you" : ""}${isChanged ? ", attention changed" : ""}`;
      const word = this.word(step.symbol, languages.target, { "aria-pressed": String(i === selected),
        class: `word target${isForced ? " forced" : ""}${isChanged ? " changed" : ""}`,
        "aria-label": `${shown(step.symbol)}, probability ${percent(p)}${state}`,
        onclick: () => this.panel.select(i), onpointerenter: () => this.panel.highlight(i, null),
        onfocus: () => this.panel.highlight(i, null) });
      word.append(h("span", { class: "bar", style: { "--p": p.toFixed(3) } }));
      word.title = percent(p);
      return word;
    });
    this.lines = svg("svg", { "aria-hidden": "true" });
    const group = (label, words) => h("div", { class: "words", role: "group", "aria-label": label }, words);
    const groups = [group("Source words", this.source), group("Target words, with probabilities", this.target)];
    groups.forEach((each) => rove(each, ".word"));
    const widths = [analysis.source, chosen.steps.map((step) => step.symbol)].map((line) =>
      line.reduce((sum, symbol) => sum + textWidth(shown(symbol), 16) + 22, 0));
    this.isWide = Math.max(...widths) <= this.element.clientWidth - 8;
    this.element.className = `links ${this.isWide ? "wide" : "tall"}`;
    this.element.onpointerleave = () => this.panel.highlight(null, null);
    this.element.replaceChildren(this.lines, ...groups);
    this.draw();
    words()[focused]?.focus();
  }

  word = (symbol, lang, properties) =>
    h("button", { type: "button", ...properties }, h("span", { class: "text", dir: "auto", lang }, shown(symbol)));

  draw() {
    const box = this.element.getBoundingClientRect();
    this.lines.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    const end = (word, side) => {
      const b = word.getBoundingClientRect();
      return this.isWide ? [b.left - box.left + b.width / 2, (side ? b.top : b.bottom) - box.top]
        : [(side ? b.left : b.right) - box.left, b.top - box.top + b.height / 2];
    };
    const from = this.source.map((word) => end(word, 0)), to = this.target.map((word) => end(word, 1));
    this.paths = [];
    for (const [i, row] of this.alpha.entries()) {
      for (const [j, weight] of row.entries()) {
        if (weight < FAINTEST) continue;
        const [a, b] = from[j], [c, d] = to[i];
        const bend = this.isWide ? `C ${a} ${(b + d) / 2} ${c} ${(b + d) / 2}` : `C ${(a + c) / 2} ${b} ${(a + c) / 2} ${d}`;
        const path = svg("path", { d: `M ${a} ${b} ${bend} ${c} ${d}`, fill: "none",
          style: { "stroke-width": `${0.6 + 3 * weight}px`, opacity: 0.15 + 0.75 * weight } });
        this.paths.push({ path, i, j, weight });
      }
    }
    this.lines.replaceChildren(...this.paths.map(({ path }) => path));
  }

  highlight(i, j) {
    const isPlain = i === null && j === null;
    for (const { path, i: row, j: column, weight } of this.paths ?? []) {
      const isLit = (i === null || row === i) && (j === null || column === j);
      path.style.opacity = isPlain ? 0.15 + 0.75 * weight : isLit ? 0.35 + 0.65 * weight : 0.04;
      path.classList.toggle("lit", !isPlain && isLit);
    }
    const light = (word, weight) => {
      word.classList.toggle("lit", weight > 0.1);
      word.style.setProperty("--lit", weight.toFixed(3));
    };
    this.source?.forEach((word, column) => light(word, i === null ? Number(column === j) : this.alpha[i]?.[column] ?? 0));
    this.target?.forEach((word, row) => light(word, j === null ? Number(row === i) : i === null ? this.alpha[row][j] ?? 0 : Number(row === i)));
  }
}
