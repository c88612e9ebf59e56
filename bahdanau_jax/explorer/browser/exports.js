// Files for the reader: SVG, PNG, JSON and Pharaoh links.

import { linksOf, pharaoh } from "./gold.js";
import { h } from "./elements.js";

const MOST_PIXELS = 30_000_000; // of a PNG: browsers refuse larger pictures

export function download(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// The fields of `bahdanau translate --format jsonl` without `index`.
export function asJson(analysis, chosen, original) {
  const { text, score, finished, steps } = chosen;
  const total = steps.reduce((sum, step) => sum + step.logP, 0);
  return JSON.stringify({
    text,
    ...(original !== text && { original }),
    score,
    confidence: Math.exp(total / steps.length),
    finished,
    tokens: steps.map((step) => step.symbol),
    log_probabilities: steps.map((step) => step.logP),
    source_tokens: analysis.source,
    alpha: steps.map((step) => Array.from(step.alpha, (a) => Number(a.toFixed(6)))),
  }, null, 2);
}

export function asPharaoh({ steps, finished }) {
  const words = finished ? steps.slice(0, -1) : steps; // only a finished translation ends in EOS
  return `${pharaoh(linksOf(words.map((step) => step.alpha)))}\n`;
}

export const asSvg = (picture) => new XMLSerializer().serializeToString(picture);

// Twice the size of the picture on the page, or less where it is very large.
export function asPng(picture) {
  const { width, height } = picture.viewBox.baseVal, factor = Math.min(2, Math.sqrt(MOST_PIXELS / (width * height)));
  const url = URL.createObjectURL(new Blob([asSvg(picture)], { type: "image/svg+xml" }));
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => {
      const canvas = h("canvas", { width: width * factor, height: height * factor });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(url);
      const refuse = () => reject(new Error("this browser cannot make a picture of this size"));
      canvas.toBlob((blob) => (blob ? resolve(blob) : refuse()), "image/png");
    };
    image.onerror = () => reject(new Error("this browser cannot draw the picture"));
    image.src = url;
  });
}
