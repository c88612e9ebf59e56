// Elements of the page. Text from a sentence only ever becomes text nodes and attributes of a label.

const SVG = "http://www.w3.org/2000/svg";

function build(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.entries(value).forEach(([key, each]) => node.style.setProperty(key, each));
    else if (name === "dataset") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const h = (name, properties = {}, ...children) =>
  build(document.createElement(name), properties, children);

export const svg = (name, properties = {}, ...children) =>
  build(document.createElementNS(SVG, name), properties, children);

export const byId = (id) => document.getElementById(id);

// Units as readers see them: the mark of a word's beginning is a space, and </s> the end.
export const shown = (symbol) => (symbol === "</s>" ? "end" : symbol.replaceAll("▁", "␣"));

export const percent = (p) => (p >= 0.9995 ? "100%" : p < 0.0005 ? "<0.1%" : `${(100 * p).toFixed(1)}%`);

export const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// The width of a text in the page's font.
let pen = null;
export function textWidth(text, size = 14) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// Arrow keys move between the elements of a group, of which one is in the order of tabs.
export function rove(group, selector, columns = () => 1) {
  const items = () => [...group.querySelectorAll(selector)];
  const focus = (item) => {
    items().forEach((each) => (each.tabIndex = each === item ? 0 : -1));
    item.focus();
  };
  items().forEach((each, i) => (each.tabIndex = i ? -1 : 0));
  group.addEventListener("focusin", ({ target }) => {
    const item = target.closest(selector);
    if (item) items().forEach((each) => (each.tabIndex = each === item ? 0 : -1));
  });
  group.addEventListener("keydown", (event) => {
    const all = items(), at = all.indexOf(document.activeElement);
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns(), ArrowUp: -columns() };
    const to = event.key === "Home" ? 0 : event.key === "End" ? all.length - 1 : at + moves[event.key];
    if (at < 0 || Number.isNaN(to) || !all[to]) return;
    event.preventDefault();
    focus(all[to]);
  });
}
