// The picture of a matrix of weights: target words down, source words across. It stands alone, with
// its own colours, so that the page's picture is also the exported one.

import { palette, weightColour, signedColour } from "./colours.js";
import { h, shown, svg, textWidth } from "./elements.js";

const SIZE = 13, LEAN = 55; // of labels: pixels, and degrees of the words across
const LONGEST = 24; // characters of a label
const MOST_CELLS = 8_000; // cells that are elements of their own; more become one image

// Characters that XML does not have, of which a file of the picture would be invalid.
const FORBIDDEN = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;

const label = (symbol) => {
  const letters = [...shown(symbol).replace(FORBIDDEN, "")];
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join("")}…` : letters.join("");
};

// Places in pixels: of the first cell (left, top), the side of a cell, and the whole picture.
function layout(labels, heads, width) {
  const radians = (LEAN * Math.PI) / 180;
  const longest = (texts) => Math.max(...texts.map((text) => textWidth(text, SIZE)));
  const left = Math.ceil(longest(labels)) + 12, top = Math.ceil(longest(heads) * Math.sin(radians)) + 16;
  const cell = Math.max(20, Math.min(36, Math.floor((width - left - 8) / heads.length)));
  const ends = heads.map((head, j) => cell * (j + 0.5) + textWidth(head, SIZE) * Math.cos(radians));
  const all = [left + Math.ceil(Math.max(cell * heads.length, ...ends)) + 8, top + cell * labels.length + 4];
  return { left, top, cell, all };
}

function words({ left, top, cell }, labels, heads, ink) {
  const style = { "font-size": SIZE, "font-family": "system-ui, sans-serif", fill: ink };
  const across = heads.map((head, j) => {
    const x = left + cell * (j + 0.5) + 3;
    return svg("text", { ...style, x, y: top - 7, transform: `rotate(-${LEAN} ${x} ${top - 7})`, "data-column": j }, head);
  });
  const down = labels.map((text, i) => svg("text", { ...style, x: left - 8, y: top + cell * (i + 0.5) + 4.5,
    "text-anchor": "end", "data-row": i }, text));
  return [...across, ...down];
}

const cells = ({ left, top, cell }, values, colour, stroke) =>
  values.flatMap((row, i) => Array.from(row, (value, j) => svg("rect", { x: left + cell * j + 0.5, y: top + cell * i + 0.5,
    width: cell - 1, height: cell - 1, rx: 2, fill: colour(value), stroke, "stroke-width": 0.5, "data-cell": `${i}.${j}` })));

// One pixel for each cell, which the picture enlarges: browsers are slow with very many elements.
function image({ left, top, cell }, values, colour) {
  const columns = values[0].length, rows = values.length;
  const canvas = h("canvas", { width: columns, height: rows }), pen = canvas.getContext("2d");
  values.forEach((row, i) => row.forEach((value, j) => {
    pen.fillStyle = colour(value);
    pen.fillRect(j, i, 1, 1);
  }));
  return svg("image", { href: canvas.toDataURL(), x: left, y: top, width: cell * columns, height: cell * rows,
    preserveAspectRatio: "none", style: { "image-rendering": "pixelated" } });
}

const goldFrame = ({ left, top, cell }, [i, j, isSure], stroke) =>
  svg("rect", { x: left + cell * j + 3, y: top + cell * i + 3, width: cell - 6, height: cell - 6, rx: 2, fill: "none",
    stroke, "stroke-width": isSure ? 2 : 1.5, ...(!isSure && { "stroke-dasharray": "2.5 2.5" }), "pointer-events": "none" });

// `signed`: numbers of both signs, relative to the largest. `gold`: [i, j, isSure] of cells.
export function matrixPicture({ rows, columns, values, signed = false, gold = [], width = 480, title }) {
  const colours = palette(), labels = rows.map(label), heads = columns.map(label);
  const places = layout(labels, heads, width), { all } = places;
  const largest = values.reduce((most, row) => row.reduce((m, value) => Math.max(m, Math.abs(value)), most), 1e-9);
  const colour = signed ? (v) => signedColour(v / largest, colours) : (v) => weightColour(v, colours);
  const isLarge = rows.length * columns.length > MOST_CELLS;
  const picture = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${all.join(" ")}`,
    width: all[0], height: all[1], role: "img", "aria-label": title },
  svg("rect", { width: all[0], height: all[1], fill: colours.card }), ...words(places, labels, heads, colours.ink));
  if (isLarge) picture.append(image(places, values, colour));
  else picture.append(...cells(places, values, colour, colours.line));
  picture.append(...gold.map((link) => goldFrame(places, link, colours.changed)));
  return { picture, ...places };
}

// One picture of several, from left to right.
export function sideBySide(pictures) {
  const sizes = pictures.map(({ viewBox }) => viewBox.baseVal), height = Math.max(...sizes.map((size) => size.height));
  let width = 0;
  pictures.forEach((picture, i) => {
    picture.setAttribute("x", width);
    width += sizes[i].width;
  });
  return svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height }, ...pictures);
}

// [row, column] of a picture at the place of a pointer; null beside the rows, the column null beside the columns.
export function cellAt({ picture, left, top, cell, rows, columns }, { clientX, clientY }) {
  const box = picture.getBoundingClientRect(), scale = picture.viewBox.baseVal.width / box.width;
  const i = Math.floor(((clientY - box.top) * scale - top) / cell), j = Math.floor(((clientX - box.left) * scale - left) / cell);
  if (i < 0 || i >= rows.length) return null;
  return [i, j >= 0 && j < columns.length ? j : null];
}
