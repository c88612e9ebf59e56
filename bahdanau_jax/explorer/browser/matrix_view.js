// The alignment matrix, and the matrix of gradients beside it.

import { palette } from "./colours.js";
import { cellAt, matrixPicture, sideBySide } from "./drawing.js";
import { h, percent, shown, svg } from "./elements.js";

// How the number of a cell is read, by the kind of its matrix.
const NUMBERS = {
  attention: (value) => `attention ${percent(value)}`,
  gradient: (value) => `gradient × input ${value.toFixed(3)}`,
};

export class MatrixView {
  // `panel` is told of the cell under the pointer, and of the chosen row.
  constructor(panel) {
    this.panel = panel;
    this.element = h("div", { class: "matrix" });
    this.readout = h("p", { class: "readout", "aria-live": "polite" });
    this.drawn = [];
  }

  show(analysis, chosen, { view, gradients, obstacle, gold }) {
    const rows = chosen.steps.map((step) => step.symbol), columns = analysis.source;
    const kinds = { attention: ["attention"], gradient: ["gradient"], both: ["attention", "gradient"] }[view];
    this.element.classList.toggle("two", kinds.length > 1);
    const columnsOfPage = getComputedStyle(this.element).gridTemplateColumns.split(" ").length;
    const width = Math.min((this.element.clientWidth || 480) / columnsOfPage - 12, 620);
    this.drawn = kinds.flatMap((kind) => {
      if (kind === "gradient" && gradients?.length !== rows.length) return [];
      const isSigned = kind === "gradient";
      const title = isSigned ? "Gradient times input of each target word for each source word"
        : "Attention of each target word to each source word";
      const values = isSigned ? gradients : chosen.steps.map((step) => step.alpha);
      const drawn = matrixPicture({ rows, columns, values, signed: isSigned, width, title,
        gold: isSigned ? [] : gold });
      return [{ ...drawn, kind, values, rows, columns }];
    });
    const focused = this.frames.indexOf(document.activeElement), { at } = this;
    this.element.replaceChildren(...this.drawn.map((each) => this.framed(each)), this.readout);
    this.frames[Math.min(focused, this.frames.length - 1)]?.focus({ preventScroll: true });
    this.at = focused >= 0 && at && at[0] < rows.length && at[1] < columns.length ? at : null;
    this.readout.textContent = this.hint(kinds, gradients, rows, obstacle);
  }

  get frames() {
    return [...this.element.querySelectorAll(".scroll")];
  }

  // The picture of a file: all matrices side by side, without the marks of the pointer and of the chosen row.
  picture() {
    const copies = this.drawn.map(({ picture }) => {
      const copy = picture.cloneNode(true);
      copy.lastElementChild.remove();
      return copy;
    });
    return copies.length === 1 ? copies[0] : sideBySide(copies);
  }

  hint(kinds, gradients, rows, obstacle) {
    if (kinds.includes("gradient") && gradients?.length !== rows.length) {
      return obstacle || `Computing gradients: ${gradients?.length ?? 0} of ${rows.length} words.`;
    }
    return "Point at a cell, or move with the arrow keys, to read its number.";
  }

  framed(drawn) {
    const { picture, kind } = drawn;
    drawn.mark = svg("g", { "pointer-events": "none" });
    picture.append(drawn.mark);
    const name = kind === "gradient" ? "Gradient × input" : "Attention α";
    const frame = h("div", { class: "scroll", role: "group", tabindex: 0,
      "aria-label": `${name}. Arrow keys move from cell to cell, Enter chooses the row.` }, picture);
    picture.addEventListener("pointermove", (event) => {
      const cell = cellAt(drawn, event);
      if (cell && cell[1] !== null) this.panel.highlight(...cell);
    });
    picture.addEventListener("pointerleave", () => this.panel.highlight(null, null));
    picture.addEventListener("click", (event) => {
      const cell = cellAt(drawn, event);
      if (cell) this.panel.select(cell[0]);
    });
    frame.addEventListener("keydown", (event) => this.move(event, frame, drawn));
    const meaning = kind === "gradient" ? ": blue raises the probability of the word, orange lowers it" : "";
    return h("figure", {}, h("figcaption", {}, name + meaning), frame);
  }

  move(event, frame, { rows, columns, left, top, cell }) {
    const [i, j] = this.at ?? [0, -1];
    const to = { ArrowRight: [i, j + 1], ArrowLeft: [i, j - 1], ArrowDown: [i + 1, j], ArrowUp: [i - 1, j] }[event.key];
    if (event.key === "Enter" && this.at) this.panel.select(i);
    if (!to) return;
    event.preventDefault();
    const clamp = (value, size) => Math.max(0, Math.min(size - 1, value));
    const [row, column] = [clamp(to[0], rows.length), clamp(to[1], columns.length)];
    this.panel.highlight(row, column);
    const x = left + cell * (column + 0.5), { scrollLeft, clientWidth } = frame;
    if (x < scrollLeft + left || x > scrollLeft + clientWidth - cell) frame.scrollLeft = x - clientWidth / 2;
    const y = frame.getBoundingClientRect().top + top + cell * (row + 0.5);
    if (y < cell || y > innerHeight - cell) scrollBy(0, y - innerHeight / 2);
  }

  // Outline the row, the column or the cell of the highlighted words.
  highlight(i, j, selected) {
    const colours = palette();
    for (const { mark, left, top, cell, rows, columns } of this.drawn) {
      const box = (x, y, width, height, stroke) => svg("rect", { x, y, width, height, rx: 3, fill: "none",
        stroke, "stroke-width": 1.75 });
      const across = cell * columns.length, down = cell * rows.length;
      const row = i ?? null, marks = [];
      if (selected !== null && selected < rows.length) marks.push(box(left, top + cell * selected, across, cell, colours.quiet));
      if (row !== null && row < rows.length) marks.push(box(left, top + cell * row, across, cell, colours.accent));
      if (j !== null && j < columns.length) marks.push(box(left + cell * j, top, cell, down, colours.accent));
      mark.replaceChildren(...marks);
    }
    const read = this.drawn.filter(({ values }) => values[i]?.[j] !== undefined);
    if (!read.length) return;
    const [{ rows, columns }] = read, numbers = read.map(({ kind, values }) => NUMBERS[kind](values[i][j]));
    this.readout.textContent = `“${shown(rows[i])}” and “${shown(columns[j])}”: ${numbers.join(", ")}`;
    this.at = [i, j];
  }
}
