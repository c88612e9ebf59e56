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

// The next or the previous one of a list, by an arrow key.
function beside(item, key, items) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };
  return items[items.indexOf(item) + steps[key]];
}

// Arrow keys move between the elements of a group, of which one is in the order of tabs.
// `neighbour` maps an element, an arrow key and all elements to the element that gets the focus.
export function rove(group, selector, neighbour = beside) {
  const items = () => [...group.querySelectorAll(selector)];
  const enter = (item) => items().forEach((each) => (each.tabIndex = each === item ? 0 : -1));
  enter(items()[0]);
  group.addEventListener("focusin", ({ target }) => {
    const item = target.closest(selector);
    if (item) enter(item);
  });
  group.addEventListener("keydown", (event) => {
    const all = items(), { key, target } = event;
    if (!all.includes(target) || !/^(Arrow|Home$|End$)/.test(key)) return;
    event.preventDefault();
    const to = key === "Home" ? all[0] : key === "End" ? all.at(-1) : neighbour(target, key, all);
    to?.focus();
  });
}
