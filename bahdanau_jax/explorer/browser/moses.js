// The Moses tokeniser and detokeniser as sacremoses has them, without escaping. `rules` holds the
// character classes and prefixes of the language, which Python takes from sacremoses itself.

export const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACES = new RegExp(`[${SPACE}]+`, "gu");

// As Python's split() and strip() do: JavaScript counts other characters as white space.
export const words = (text) => text.split(SPACES).filter(Boolean);
const stripped = (text) => text.replace(new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "gu"), "");

const APOSTROPHES = {
  english: ({ alpha, number }) => [
    [`([^${alpha}])'([^${alpha}])`, "$1 ' $2"],
    [`([^${alpha}${number}])'([${alpha}])`, "$1 ' $2"],
    [`([${alpha}])'([^${alpha}])`, "$1 ' $2"],
    [`([${alpha}])'([${alpha}])`, "$1 '$2"],
    [`([${number}])'(s)`, "$1 '$2"],
  ],
  french: ({ alpha }) => [
    [`([^${alpha}])'([^${alpha}])`, "$1 ' $2"],
    [`([^${alpha}])'([${alpha}])`, "$1 ' $2"],
    [`([${alpha}])'([^${alpha}])`, "$1 ' $2"],
    [`([${alpha}])'([${alpha}])`, "$1' $2"],
  ],
  other: () => [["'", " ' "]],
};
const FAMILY = { en: "english", fr: "french", it: "french" };

const compile = ([pattern, to]) => [new RegExp(pattern, "gu"), to];
const replace = (text, list) => list.reduce((t, [pattern, to]) => t.replace(pattern, to), text);

// A full stop belongs to an abbreviation, or is a token of its own.
function fullStopsOf({ classes: { alpha, lower }, prefixes: known, numericPrefixes }) {
  const isAlpha = new RegExp(`[${alpha}]`, "u"), isLower = new RegExp(`^[${lower}]`, "u");
  const prefixes = new Set(known), numeric = new Set(numericPrefixes);
  return (text) => {
    const tokens = words(text);
    return tokens.map((token, i) => {
      const prefix = token.slice(0, -1), next = tokens[i + 1];
      if (!token.endsWith(".") || !prefix) return token;
      if (prefix.includes(".") && isAlpha.test(prefix)) return token;
      if (prefixes.has(prefix) && !numeric.has(prefix)) return token;
      if (next !== undefined && isLower.test(next)) return token;
      if (numeric.has(prefix) && next !== undefined && /^[0-9]/.test(next)) return token;
      return `${prefix} .`;
    }).join(" ");
  };
}

export function mosesTokenizer(rules) {
  const { alnum, number } = rules.classes, fullStops = fullStopsOf(rules);
  const before = [
    [`([^${alnum}${SPACE}.'\`,\\-])`, " $1 "],
  ].map(compile);
  const after = [
    [`([^${number}]),`, "$1 , "],
    [`,([^${number}])`, " , $1"],
    [`([${number}]),$`, "$1 , "],
    ...APOSTROPHES[FAMILY[rules.language] ?? "other"](rules.classes),
  ].map(compile);

  return (line) => {
    let text = line.replace(SPACES, " ").replace(/[\0-\x1f]/g, "");
    const unknown = protect(text, line);
    text = replace(stripped(unknown.text), before);
    text = text.replace(/\.{2,}/g, (dots, at, whole) => {
      const marker = ` ${"DOT".repeat(dots.length)}MULTI`;
      return at + dots.length < whole.length ? `${marker} ` : marker;
    });
    text = fullStops(replace(text, after));
    text = stripped(text.replace(SPACES, " ")).replace(/\.' ?$/, " . ' ");
    text = unknown.restore(text);
    text = text.replace(/(?:DOT)+MULTI/g, (found) => ".".repeat((found.length - 5) / 3));
    return words(text).join(" ");
  };
}

// The symbol <unk> stays one token, in any case of letters, where the line has it in lower case.
function protect(text, line) {
  if (!line.includes("<unk>")) return { text, restore: (t) => t };
  const found = text.match(/<unk>/gi);
  const runs = text.match(/THISISPROTECTEDX*/g);
  const longest = runs && Math.max(...runs.map((run) => run.length - 15));
  const marker = `THISISPROTECTED${runs ? "X".repeat(longest + 1) : ""}`;
  const names = found.map((_, i) => marker + String(i).padStart(3, "0"));
  found.forEach((token, i) => (text = text.split(token).join(names[i])));
  return {
    text,
    restore: (t) => found.reduce((all, token, i) => all.split(names[i]).join(token), t),
  };
}

// What a token is, for the spaces around it.
function kindsOfTokens({ language, cjk, classes: { letter: alpha, currency } }) {
  const isCurrency = new RegExp(`^[${currency}(\\[{¿¡]+$`, "u");
  const isContraction = new RegExp(`^'[${alpha}]`, "u");
  const endsElided = new RegExp(`[${alpha}]'$`, "u"), startsAlpha = new RegExp(`^[${alpha}]`, "u");
  const elides = ["fr", "it", "ga"].includes(language);
  return {
    isCjk: (character) => {
      const code = character.codePointAt(0);
      return cjk.some(([start, end]) => start <= code && code <= end);
    },
    isCurrency: (token) => isCurrency.test(token),
    isContraction: (token, i) => language === "en" && i > 0 && isContraction.test(token),
    isElided: (token, next) => elides && next !== undefined && endsElided.test(token) && startsAlpha.test(next),
  };
}

export function mosesDetokenizer(rules) {
  const { language } = rules, { isCjk, isCurrency, isContraction, isElided } = kindsOfTokens(rules);

  return (tokenised) => {
    const tokens = words(` ${words(tokenised).join(" ")} `.replaceAll(" @-@ ", "-"));
    const quotes = {};
    let text = "", space = " ";
    const put = (before, token, after) => {
      text += before + token;
      space = after;
    };
    // An opening quotation mark joins the word after it, a closing one the word before it.
    const putQuote = (token, i) => {
      const kind = /^[„“”]+$/.test(token) ? '"' : token;
      const opens = (quotes[kind] ?? 0) % 2 === 0;
      if (opens && language === "en" && token === "'" && i > 0 && tokens[i - 1].endsWith("s")) return put("", token, " ");
      put(opens ? space : "", token, opens ? "" : " ");
      quotes[kind] = (quotes[kind] ?? 0) + 1;
    };
    tokens.forEach((token, i) => {
      if (isCjk(token) && language !== "ko") {
        const joined = i > 0 && isCjk([...tokens[i - 1]].at(-1));
        put(joined ? "" : space, token, " ");
      } else if (isCurrency(token)) put(space, token, "");
      else if (/^[,.?!:;\\%}\])]+$/.test(token)) {
        put(language === "fr" && /^[?!:;\\%]$/.test(token) ? " " : "", token, " ");
      } else if (isContraction(token, i)) put("", token, " ");
      else if (isElided(token, tokens[i + 1])) put(space, token, "");
      else if (/^['"„“`]+$/.test(token)) putQuote(token, i);
      else put(space, token, " ");
    });
    return stripped(text.replace(/ {2,}/g, " "));
  };
}
