// The guided tour: six short steps on the sentence of the page.

import { palette, signedColour } from "./colours.js";
import { byId, h, isStill, percent, shown, svg } from "./elements.js";

const CELLS = 48; // numbers of a state that are drawn

// The first numbers of a state as a strip of colours.
function strip(name, vector) {
  const colours = palette(), count = Math.min(CELLS, vector.length);
  const cells = Array.from({ length: count }, (_, i) => svg("rect", { x: i * 6, y: 0, width: 5.4, height: 14, rx: 1,
    fill: signedColour(vector[i], colours) }));
  return h("div", { class: "strip" }, h("span", { class: "name", dir: "auto" }, name),
    svg("svg", { viewBox: `0 0 ${CELLS * 6} 14`, role: "img", "aria-label": `${count} numbers of the state of ${name}` }, cells));
}

const bars = (pairs) => h("ul", { class: "rows" }, pairs.map(([name, p]) => h("li", {}, h("span", { class: "row" },
  h("span", { class: "name", dir: "auto" }, name),
  h("span", { class: "track" }, h("span", { class: "fill", style: { "--p": p.toFixed(4) } })),
  h("span", { class: "number" }, percent(p))))));

const fromOldState = (given, { readsWord }) =>
  `From ${given}${readsWord ? ", the word before" : ""} and its old state, the decoder computes its new state s.`;
const contextOf = ({ isFixed, hasWord }) => {
  const one = hasWord ? "annotation" : "state";
  return isFixed ? `the last ${one} of the encoder` : `the weighted sum of the ${one}s`;
};
const updateFirst = (facts) =>
  `${fromOldState("the context before", facts)} After that, the new context c is ${contextOf(facts)}.`;

// How a step makes its state, by the orders of model.js.
const UPDATES = {
  paper: (facts) => `The context c is ${contextOf(facts)}. ${fromOldState("c", facts)}`,
  luong: updateFirst,
  groundhog: (facts) => (facts.i ? updateFirst(facts)
    : `Before the first word, this model keeps the state that it begins with. The context c is ${contextOf(facts)}.`),
  conditional: (facts) => `The first of two cells has read the old state${facts.readsWord ? " and the word before" : ""}. `
    + `The context c is ${contextOf(facts)}. The second cell reads c, and computes the new state s.`,
};

// The words that a softmax is over, and what its weights do; scores that are not named are over all words.
const WEIGHTS = {
  local_m: ["over the words around the same place", "add up to 1"],
  local_p: ["over the words around a predicted place", "become smaller with the distance from this place"],
};

// What a score reads beside the state.
const BESIDE = { additive_coverage: ", and reads the sum of the weights that each word has had so far" };

// The state that attention compares with the annotations.
const QUERIES = {
  paper: () => "its state s",
  luong: () => "its new state s",
  groundhog: (i) => (i ? "its new state s" : "its state s"),
  conditional: () => "the state between its two cells",
};

// What the readout may read, by the letters of `model.readout_inputs`.
const READ = { s: "the state", y: "the word before", c: "the context" };

function reading(letters) {
  const names = Object.keys(READ).filter((letter) => letters.includes(letter)).map((letter) => READ[letter]);
  const text = names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)} give` : `${names[0]} alone gives`;
  return text[0].toUpperCase() + text.slice(1);
}

function look({ attention, order, i, word }) {
  const [over, how] = WEIGHTS[attention] ?? ["over all words", "add up to 1"];
  return `Before it writes word ${i + 1}, “${word}”, the decoder compares ${QUERIES[order](i)} with every h${BESIDE[attention] ?? ""}. `
    + `A softmax ${over} turns the scores into weights α, which ${how}.`;
}

const STEPS = [
  {
    title: "1. The encoder's states",
    text: ({ size, directions, hasWord }) => `The encoder has read the sentence ${directions === 2 ? "in both directions" : "from left to right"}. `
      + `Each word now has ${hasWord ? "an annotation" : "a state"} h of ${directions} × ${size} numbers, which knows the word and its neighbours`
      + (hasWord ? ", followed by the embedding of the word. " : ". ")
      + "Here are the first ones: blue is positive, orange negative.",
    target: ".links", picture: ({ source, memory, value }) => source.map((word, j) => strip(word, value(memory.annotations[j]))),
  },
  {
    title: "2. One look",
    text: (facts) => (facts.isFixed
      ? "This model has no attention: before each word it reads the last state alone, here the end of the sentence."
      : look(facts)),
    target: ".step", picture: ({ source, step }) => [bars(source.map((word, j) => [word, step.alpha[j]]))],
  },
  {
    title: "3. One update",
    text: (facts) => UPDATES[facts.order](facts),
    target: ".links", picture: ({ forced: { before, after } }) =>
      [strip("s before", before.s), strip("context c", after.c), strip("s after", after.s)],
  },
  {
    title: "4. One word",
    text: ({ vocabulary, inputs }) => `${reading(inputs)} a probability to each of the `
      + `${vocabulary.toLocaleString("en")} words. These are the likeliest. Click another one in the list of the page, `
      + "and the model goes on from there.",
    target: ".step", picture: ({ step }) => [bars(step.likeliest.slice(0, 5).map(({ symbol, logP }) => [shown(symbol), Math.exp(logP)]))],
  },
  {
    title: "5. The whole matrix",
    text: ({ isFixed }) => (isFixed
      ? "Every row is the same: this model reads the last state alone, whichever word it writes."
      : "The same look before every word gives one row each. "
        + "Nobody told the model which words belong together: it learned that from translations alone."),
    target: ".matrix", picture: () => [],
  },
  {
    title: "6. A look at nothing",
    text: ({ without }) => `If the decoder may look at nothing, its state alone has to remember the sentence. `
      + `It then writes: “${without}”. Models that read one vector for the whole sentence fail in this way when `
      + "sentences get long.",
    target: ".translation", picture: () => [],
  },
];

export class Tour {
  constructor(app, element) {
    Object.assign(this, { app, element });
    element.addEventListener("keydown", ({ key }) => key === "Escape" && this.leave());
  }

  leave() {
    this.go(0);
    byId("tour-open").focus();
  }

  // The open step once more, for another translation; the reader's focus stays where it is.
  renew() {
    if (this.app.state.tour) return this.go(this.app.state.tour, false);
  }

  // `isFollowed`: the page and the focus move to the step.
  async go(number, isFollowed = true) {
    const panel = this.app.panels[0], { run } = panel;
    if (number && panel.isSearching) return; // a step tells of a translation that is shown
    this.app.state.tour = panel.chosen ? number : 0;
    this.app.changed();
    if (!this.app.state.tour) return this.close();
    const facts = await this.facts(panel), { title, text, target, picture } = STEPS[number - 1];
    if (this.app.state.tour !== number || panel.run !== run) return; // the reader went on meanwhile
    const heading = h("h2", { tabindex: -1 }, title);
    const button = (name, to, kind = "") => h("button", { type: "button", class: kind, onclick: () => (to ? this.go(to) : this.leave()) }, name);
    this.element.replaceChildren(heading, h("p", {}, text(facts)), h("div", { class: "picture" }, picture(facts)),
      h("div", { class: "turn" }, number > 1 ? button("Back", number - 1) : h("span"),
        button("Leave", 0), number < STEPS.length ? button("Next", number + 1, "primary") : button("Done", 0, "primary")));
    this.element.hidden = false;
    this.element.classList.toggle("left", target === ".step");
    document.body.classList.add("touring");
    document.querySelectorAll(".shown").forEach((each) => each.classList.remove("shown"));
    const part = panel.element.querySelector(target);
    part.classList.add("shown");
    if (!isFollowed) return;
    part.scrollIntoView({ block: "start", behavior: isStill() ? "auto" : "smooth" });
    heading.focus({ preventScroll: true });
  }

  // What the steps tell of the sentence of the page.
  async facts(panel) {
    const { engine, chosen, analysis } = panel, { model } = engine, i = Math.min(panel.state.selected ?? 0, chosen.steps.length - 1);
    const ids = engine.source.encode(this.app.state.sentence).ids;
    const forced = engine.force(ids, chosen.steps.slice(0, i + 1).map((each) => each.id), panel.state.changes)[i];
    const blind = await engine.translate(this.app.state.sentence, { beam: this.app.state.beam, prefix: [], changes: { "*": "none" } });
    const { hidden_size: size, attention, order, feed_previous: readsWord, word_annotations: hasWord, readout_inputs: inputs } = model.config;
    return { i, inputs, step: chosen.steps[i], word: shown(chosen.steps[i].symbol), source: analysis.source.map(shown), size,
      directions: model.directions.length, isFixed: attention === "none", attention, order, readsWord, hasWord, forced,
      memory: engine.memory(ids), value: (x) => x, vocabulary: engine.target.vocabulary.size, without: blind.hypotheses[0]?.text ?? "" };
  }

  close() {
    this.element.hidden = true;
    document.body.classList.remove("touring");
    document.querySelectorAll(".shown").forEach((each) => each.classList.remove("shown"));
  }
}
