// Colours of weights: one hue from the paper's colour to a dark (or bright) blue, which readers with
// any colour vision can order. Signed numbers go to blue or to vermilion.

const LIGHT = {
  weights: [[255, 255, 255], [205, 225, 240], [120, 178, 219], [0, 114, 178], [8, 48, 107]],
  positive: [0, 114, 178], negative: [192, 79, 0], paper: [255, 255, 255],
  ink: "#1b212c", quiet: "#596273", line: "#e3e0d9", accent: "#0072b2", changed: "#c04f00", card: "#ffffff",
};
const DARK = {
  weights: [[26, 30, 39], [30, 62, 92], [38, 106, 158], [108, 184, 238], [226, 243, 255]],
  positive: [108, 184, 238], negative: [255, 154, 92], paper: [26, 30, 39],
  ink: "#e7e9ee", quiet: "#a3abba", line: "#2f3542", accent: "#6cb8ee", changed: "#ff9a5c", card: "#1a1e27",
};

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export const palette = () => (isDark() ? DARK : LIGHT);

const between = (a, b, t) => a.map((value, i) => Math.round(value + t * (b[i] - value)));
const rgb = (parts) => `rgb(${parts.join(", ")})`; // with commas, as other programs read SVG

// Small weights stay visible: the scale is that of the square root.
export function weightColour(weight, colours = palette()) {
  const steps = colours.weights, at = Math.sqrt(Math.min(Math.max(weight, 0), 1)) * (steps.length - 1);
  const i = Math.min(Math.floor(at), steps.length - 2);
  return rgb(between(steps[i], steps[i + 1], at - i));
}

// `value` from -1 to 1.
export function signedColour(value, colours = palette()) {
  const t = Math.sqrt(Math.min(Math.abs(value), 1));
  return rgb(between(colours.paper, value < 0 ? colours.negative : colours.positive, t));
}
