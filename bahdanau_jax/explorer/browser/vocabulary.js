// Units of a vocabulary: words, characters, or pieces of sentencepiece; tokenised text to ids and back.

import { UNK } from "./model.js";

const MARK = "▁"; // stands for the space before a word

function plainUnits({ entries }, split, between) {
  const index = new Map(entries.map((entry, id) => [entry, id]).slice(2));
  return {
    size: entries.length,
    symbol: (id) => entries[id],
    units: split,
    ids: (tokenised) => split(tokenised).map((unit) => index.get(unit) ?? UNK),
    write: (symbols) => symbols.join(between),
  };
}

// Byte-pair encoding: the best merge of two neighbours, again and again.
function merged(word, scores) {
  const parts = [...word];
  for (;;) {
    let best = -Infinity, place = -1;
    for (let i = 0; i + 1 < parts.length; i++) {
      const score = scores.get(parts[i] + parts[i + 1]);
      if (score !== undefined && score > best) [best, place] = [score, i];
    }
    if (place < 0) return parts;
    parts.splice(place, 2, parts[place] + parts[place + 1]);
  }
}

// The segmentation of highest probability under the unigram model. Sums have the 32 bits of sentencepiece, and begin at
// the first word: their last bits decide between segmentations that are equally likely.
function likeliest(marked, scores, longest, least) {
  const letters = [...marked], sums = [0], starts = [0];
  for (let end = 1; end <= letters.length; end++) {
    sums[end] = -Infinity;
    for (let start = Math.max(0, end - longest); start < end; start++) {
      const score = scores.get(letters.slice(start, end).join("")) ?? (end - start === 1 ? least : null);
      if (score === null) continue;
      const sum = Math.fround(Math.fround(score) + sums[start]);
      if (sum > sums[end]) [sums[end], starts[end]] = [sum, start];
    }
  }
  const parts = [];
  for (let end = letters.length; end > 0; end = starts[end]) {
    parts.unshift(letters.slice(starts[end], end).join(""));
  }
  return parts;
}

const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

function isCharacter(bytes) {
  try {
    return [...strict.decode(bytes)].length === 1;
  } catch {
    return false;
  }
}

// UTF-8 as text; each byte that belongs to no character becomes U+FFFD, as sentencepiece writes it.
function characters(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const size = [1, 2, 3, 4].find((n) => isCharacter(bytes.slice(at, at + n)));
    text += size ? strict.decode(bytes.slice(at, at + size)) : "\ufffd";
    at += size ?? 1;
  }
  return text;
}

// The text of pieces. `ofByte` maps pieces that stand for a byte to the byte.
function joined(symbols, ofByte) {
  const runs = []; // text, or a list of bytes
  for (const symbol of symbols) {
    const byte = ofByte.get(symbol);
    if (byte === undefined) runs.push(symbol.replaceAll(MARK, " "));
    else if (Array.isArray(runs.at(-1))) runs.at(-1).push(byte);
    else runs.push([byte]);
  }
  const text = runs.map((run) => (Array.isArray(run) ? characters(Uint8Array.from(run)) : run)).join("");
  return text.startsWith(" ") ? text.slice(1) : text;
}

function pieces({ entries, scores: values, bytes, kind }) {
  const byteIds = new Set(bytes);
  const scores = new Map(), index = new Map();
  entries.forEach((entry, id) => {
    if (id < 2 || byteIds.has(id)) return;
    scores.set(entry, values[id]);
    index.set(entry, id);
  });
  const ofByte = new Map(bytes.map((id, byte) => [entries[id], byte]));
  // Not Math.max(...): a function does not accept an argument for each piece of a large vocabulary.
  const longest = entries.reduce((most, entry) => Math.max(most, [...entry].length), 0);
  const least = Math.fround([...scores.values()].reduce((least, score) => Math.min(least, score), Infinity) - 10);
  const cut = kind === "bpe" ? (words) => words.flatMap((word) => merged(word, scores))
    : (words) => likeliest(words.join(""), scores, longest, least);

  // [piece, id] of each unit; without byte pieces, neighbouring unknown pieces are one UNK.
  const encode = (tokenised) => {
    const found = [];
    const words = tokenised ? tokenised.split(" ") : [];
    for (const part of cut(words.map((word) => MARK + word))) {
      const id = index.get(part);
      if (id !== undefined) found.push([part, id]);
      else if (bytes.length) {
        for (const byte of new TextEncoder().encode(part)) found.push([entries[bytes[byte]], bytes[byte]]);
      } else if (found.length && found.at(-1)[1] === UNK) found.at(-1)[0] += part;
      else found.push([part, UNK]);
    }
    return found;
  };
  return {
    size: entries.length,
    symbol: (id) => entries[id],
    units: (tokenised) => encode(tokenised).map(([piece]) => piece),
    ids: (tokenised) => encode(tokenised).map(([, id]) => id),
    write: (symbols) => joined(symbols, ofByte),
  };
}

const KINDS = {
  words: (data) => plainUnits(data, (text) => (text ? text.split(" ") : []), " "),
  characters: (data) => plainUnits(data, (text) => [...text], ""),
  sentencepiece: pieces,
};

export const vocabulary = (data) => KINDS[data.type](data);
