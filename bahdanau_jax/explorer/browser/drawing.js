// The picture of a matrix of weights: target words down, source words across. It stands alone, with
// its own colours, so that the page's picture is also the exported one.

import { palette, weightColour, signedColour } from "./colours.js";
import { shown, svg, textWidth } from "./elements.js";

const SIZE = 13, LEAN = 55; // of labels: pixels, and degrees of the words across

// `signed`: numbers of both signs, relative to the largest. `gold`: [i, j, isSure] of cells.
export function matrixPicture({ rows, columns, values, signed = false, gold = [], width = 480, title }) {
  const colours = palette();
  const labels = rows.map(shown), heads = columns.map(shown);
  const left = Math.ceil(Math.max(...labels.map((label) => textWidth(label, SIZE)))) + 12;
  const radians = (LEAN * Math.PI) / 180;
  const longest = Math.max(...heads.map((head) => textWidth(head, SIZE)));
  const top = Math.ceil(longest * Math.sin(radians)) + 16;
  const tail = textWidth(heads.at(-1), SIZE) * Math.cos(radians);
  const cell = Math.max(20, Math.min(36, Math.floor((width - left - 8) / columns.length)));
  const all = [left + cell * columns.length + Math.max(4, Math.ceil(tail - cell / 2) + 4), top + cell * rows.length + 4];
  const largest = signed ? Math.max(1e-9, ...values.map((row) => Math.max(...row.map(Math.abs)))) : 1;
  const colour = signed ? (v) => signedColour(v / largest, colours) : (v) => weightColour(v, colours);
  const text = { "font-size": SIZE, "font-family": "system-ui, sans-serif", fill: colours.ink };
  const picture = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${all.join(" ")}`,
    width: all[0], height: all[1], role: "img", "aria-label": title });
  picture.append(svg("rect", { width: all[0], height: all[1], fill: colours.card }));
  heads.forEach((head, j) => {
    const x = left + cell * (j + 0.5) + 3;
    picture.append(svg("text", { ...text, x, y: top - 7, transform: `rotate(-${LEAN} ${x} ${top - 7})`,
      "data-column": j }, head));
  });
  labels.forEach((label, i) => {
    const y = top + cell * (i + 0.5);
    picture.append(svg("text", { ...text, x: left - 8, y: y + 4.5, "text-anchor": "end", "data-row": i }, label));
  });
  values.forEach((row, i) => row.forEach((value, j) => {
    picture.append(svg("rect", { x: left + cell * j + 0.5, y: top + cell * i + 0.5, width: cell - 1,
      height: cell - 1, rx: 2, fill: colour(value), stroke: colours.line, "stroke-width": 0.5,
      "data-cell": `${i}.${j}` }));
  }));
  for (const [i, j, isSure] of gold) {
    picture.append(svg("rect", { x: left + cell * j + 3, y: top + cell * i + 3, width: cell - 6, height: cell - 6,
      rx: 2, fill: "none", stroke: colours.changed, "stroke-width": isSure ? 2 : 1.5,
      ...(!isSure && { "stroke-dasharray": "2.5 2.5" }), "pointer-events": "none" }));
  }
  return { picture, left, top, cell };
}
