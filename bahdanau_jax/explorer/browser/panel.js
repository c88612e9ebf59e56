// One model's part of the page: its translation, and the views of it.

import { BeamView } from "./beam_view.js";
import { h, isStill, percent } from "./elements.js";
import { changeAt, untranslated } from "./engine.js";
import { asJson, asPharaoh, asPng, asSvg, download } from "./exports.js";
import { errorRate, linksOf, mergeWeights } from "./gold.js";
import { LinksView } from "./links_view.js";
import { MatrixView } from "./matrix_view.js";
import { StepView } from "./step_view.js";
import { VIEWS } from "./page_state.js";

const NAMES = { attention: "Attention", gradient: "Gradient", both: "Both" };

export class Panel {
  // `app`: {state, sentences, tour, changed(), showTools()}; `place`: the number of the panel.
  constructor(app, engine, place, isNamed) {
    Object.assign(this, { app, engine, place, isNamed, run: 0, gradients: null, isSearching: false });
    this.matrix = new MatrixView(this);
    this.links = new LinksView(this);
    this.step = new StepView(this);
    this.beam = new BeamView(this);
    this.text = h("p", { class: "translation", tabindex: -1, "aria-live": "polite", dir: "auto",
      lang: engine.languages.target });
    this.facts = h("p", { class: "quiet facts" });
    this.actions = h("div", { class: "actions" });
    this.golden = h("p", { class: "golden" });
    this.element = h("article", { class: "panel", "aria-label": `Model ${engine.name}` },
      isNamed ? h("h2", {}, engine.name) : null, this.text, this.facts, this.actions,
      h("section", { class: "card", "aria-label": "Words and links" }, this.links.element),
      this.pair = h("div", { class: "pair" },
        h("section", { class: "card", "aria-label": "Matrix" }, this.views(), this.matrix.element, this.golden, this.files()),
        h("div", { class: "card" }, this.step.element)),
      h("div", { class: "card" }, this.beam.element));
    this.body = [...this.element.children].slice(-3);
  }

  get state() {
    return this.app.state.panels[this.place];
  }

  // While a search runs, the views show the translation before it, and nothing of it can be changed.
  wait(isSearching) {
    this.isSearching = isSearching;
    this.element.setAttribute("aria-busy", String(isSearching));
    this.showFiles();
  }

  // What the matrix shows.
  get view() {
    return this.engine.isRecorded ? VIEWS[0] : this.app.state.view;
  }

  get isReady() {
    return !this.isSearching && this.chosen !== null;
  }

  // `isAnimated`: the words come one by one.
  async translate(isAnimated = false) {
    const run = ++this.run, { sentence, beam } = this.app.state, index = this.app.sentenceIndex();
    this.gradients = null;
    if (this.engine.isRecorded) {
      this.analysis = index < 0 ? null : this.engine.recordedAt(index);
      return this.show();
    }
    this.wait(true);
    const { prefix, changes } = this.state;
    const isWanted = () => run === this.run, isSlow = isAnimated && !isStill();
    const onStep = (partial) => (this.text.textContent = partial.hypotheses[0]?.text ?? "");
    const onSlice = (time) => (this.facts.textContent = `Translating: word ${time}.`);
    const analysis = await this.engine.translate(sentence, { beam, prefix, changes },
      { isWanted, onSlice, ...(isSlow && { onStep, wait: 55 }) });
    if (!isWanted()) return;
    this.analysis = analysis;
    this.wait(false);
    this.show();
    this.app.tour.renew();
    await this.attribute();
  }

  // A fault of the program: what was shown before belongs to another sentence.
  fail(error) {
    this.analysis = untranslated(`The page failed at this sentence: ${error.message}`);
    this.wait(false);
    this.show();
    this.app.tour.renew();
  }

  get chosen() {
    return this.analysis?.hypotheses[0] ?? null;
  }

  // The text of the translation, with unknown words replaced where the reader wants it.
  get written() {
    return this.app.state.unknown ? this.engine.replaced(this.chosen, this.analysis) : this.chosen.text;
  }

  async attribute() {
    if (this.view === "attention" || !this.isReady || this.gradients) return;
    const run = this.run, ids = this.chosen.steps.map((step) => step.id), isWanted = () => run === this.run;
    if (this.attributed === run || this.engine.obstacleToGradients(this.analysis, ids)) return;
    this.attributed = run; // further calls while the rows are computed do nothing
    const onRow = (done) => {
      if (isWanted() && done < ids.length) this.matrix.readout.textContent = `Computing gradients: ${done} of ${ids.length} words.`;
    };
    const rows = await this.engine.attribute(this.app.state.sentence, ids, this.state.changes, { onRow, isWanted });
    if (!isWanted()) return;
    this.gradients = rows;
    this.showMatrix();
  }

  show() {
    if (this.isSearching) return; // the search will show its translation
    const { chosen, analysis } = this;
    this.showFiles();
    this.body.forEach((part) => (part.hidden = !chosen));
    if (!chosen) {
      this.text.textContent = "";
      this.facts.classList.toggle("refusal", Boolean(analysis?.refusal));
      this.facts.textContent = this.engine.isRecorded && !analysis
        ? `${this.engine.data.reason}: choose one of the examples, whose translations were recorded.` : analysis?.refusal ?? "";
      this.actions.replaceChildren();
      return;
    }
    this.facts.classList.remove("refusal");
    const { beam } = this.app.state, { isRecorded } = this.engine;
    this.text.textContent = this.written || "(nothing)";
    const total = chosen.steps.reduce((sum, step) => sum + step.logP, 0);
    this.facts.textContent = `score ${chosen.score.toFixed(3)} · ${chosen.steps.length} words${chosen.finished ? " with the end" : ""} · `
      + `${percent(Math.exp(total / chosen.steps.length))} a word${chosen.finished ? "" : " · stopped at the length limit"}`
      + (analysis.source.length > this.engine.data.decoding.max_source + 1 ? " · Python translates a line of this length in parts" : "");
    const isLost = this.actions.contains(document.activeElement);
    this.actions.replaceChildren(...this.buttons());
    if (isLost) (this.actions.firstElementChild ?? this.text).focus();
    if (this.state.selected === null || this.state.selected >= chosen.steps.length) this.state.selected = Math.min(2, chosen.steps.length - 1);
    this.links.show(analysis, chosen, this.state);
    this.showMatrix();
    this.step.show(analysis, chosen, { ...this.state, isRecorded });
    this.beam.show(analysis, chosen, { isRecorded, beam });
    this.highlight(null, null);
  }

  showMatrix() {
    const { view } = this, obstacle = this.engine.obstacleToGradients(this.analysis, this.chosen.steps);
    this.pair.classList.toggle("broad", view === "both");
    this.matrix.show(this.analysis, this.chosen, { view, gradients: this.gradients, obstacle, gold: this.goldCells() });
    this.matrix.highlight(...(this.matrix.at ?? [null, null]), this.state.selected);
    this.showFiles();
  }

  buttons() {
    const { prefix, changes } = this.state, list = [];
    const button = (name, action) => h("button", { type: "button", onclick: action }, name);
    const isChanged = prefix.length || Object.keys(changes).length, plain = { prefix: [], forced: [], changes: {} };
    if (isChanged) list.push(button("Undo my changes", () => this.update(plain)));
    if (!this.engine.isRecorded && this.reference() && !this.isReference()) list.push(button("Show the reference", () => this.showReference()));
    return list;
  }

  update(values) {
    if (this.isSearching) return null; // the values belong to the translation before
    Object.assign(this.state, values);
    this.app.changed();
    return this.translate(true);
  }

  // Words before step i stay as they are.
  force(i, ids) {
    const before = this.chosen.steps.slice(0, i).map((step) => step.id), { forced } = this.state;
    return this.forcePath([...before, ...ids], [...forced.filter((at) => at < i), ...ids.map((_, k) => i + k)]);
  }

  forcePath(ids, forced = [ids.length - 1]) {
    const changes = Object.fromEntries(Object.entries(this.state.changes).filter(([step]) => step === "*" || Number(step) < ids.length));
    return this.update({ prefix: ids, forced, changes, selected: ids.length - 1 });
  }

  // The selected step looks at a source position alone, or as the model does where it did that already.
  look(j) {
    const { selected, changes } = this.state;
    if (!this.engine.isRecorded) this.change(selected, changeAt(changes, selected) === String(j) ? null : String(j));
  }

  // `how`: "all", "none", a source position, or null for the model's own attention.
  change(i, how) {
    const changes = { ...this.state.changes };
    if (how === null && changes["*"] === undefined) delete changes[i];
    else changes[i] = how ?? "own";
    const before = this.chosen.steps.slice(0, i).map((step) => step.id);
    return this.update({ changes, prefix: before, forced: this.state.forced.filter((at) => at < i), selected: i });
  }

  select(i) {
    if (this.isSearching) return;
    this.state.selected = i;
    this.app.changed();
    this.step.show(this.analysis, this.chosen, { ...this.state, isRecorded: this.engine.isRecorded });
    this.links.target.forEach((word, row) => word.setAttribute("aria-pressed", String(row === i)));
    this.highlight(i, null);
  }

  highlight(i, j) {
    this.links.highlight(i, j);
    this.matrix.highlight(i, j, this.state.selected);
  }

  views() {
    const change = (view) => () => {
      this.app.state.view = view;
      this.app.showViews();
    };
    this.choices = VIEWS.map((view) => h("button", { type: "button", onclick: change(view), "data-view": view }, NAMES[view]));
    return h("div", { class: "bar-of-card" }, h("h3", {}, "The matrix"),
      this.engine.isRecorded ? null : h("div", { class: "segments", role: "group", "aria-label": "What the matrix shows" }, this.choices));
  }

  reference() {
    return this.app.sentences[this.app.sentenceIndex()]?.reference ?? null;
  }

  isReference() {
    const ids = this.engine.referenceIds(this.reference()), { steps } = this.chosen;
    return ids.length === steps.length && ids.every((id, i) => id === steps[i].id);
  }

  showReference() {
    const ids = this.engine.referenceIds(this.reference());
    return this.update({ prefix: ids, forced: [], changes: {} });
  }

  // Cells of gold links, where the translation is the reference; and the sentence's error rate.
  goldCells() {
    this.golden.replaceChildren();
    const gold = this.engine.data.gold[this.app.sentenceIndex()];
    if (!gold || !this.app.state.gold) return [];
    if (!this.isReference()) {
      this.golden.textContent = "Gold links are known for the reference, from which this translation differs.";
      return [];
    }
    const alpha = mergeWeights(this.chosen.steps.map((step) => step.alpha), gold.source, gold.target);
    const rate = errorRate(linksOf(alpha.slice(0, -1)), gold.sure, gold.possible);
    this.golden.append(h("strong", {}, `AER ${rate.toFixed(3)}`), " against the gold links: solid frames are sure, dashed ones possible.");
    const sure = new Set(gold.sure.map(String));
    return gold.possible.flatMap((link) =>
      gold.target[link[1]].flatMap((i) => gold.source[link[0]].map((j) => [i, j, sure.has(String(link))])));
  }

  files() {
    const name = () => `alignment${this.isNamed ? `-${this.place + 1}` : ""}`;
    const kinds = {
      SVG: () => download(`${name()}.svg`, asSvg(this.matrix.picture()), "image/svg+xml"),
      PNG: async () => download(`${name()}.png`, await asPng(this.matrix.picture()), "image/png"),
      JSON: () => download(`${name()}.json`,
        asJson(this.analysis, { ...this.chosen, text: this.written }, this.chosen.text), "application/json"),
      Pharaoh: () => download(`${name()}.pharaoh`, asPharaoh(this.chosen), "text/plain"),
    };
    this.saves = Object.fromEntries(Object.entries(kinds).map(([kind, save]) =>
      [kind, h("button", { type: "button", onclick: save }, kind)]));
    return h("div", { class: "files", role: "group", "aria-label": "Download" }, Object.values(this.saves));
  }

  // Files and the tour are offered where there is something that they show.
  showFiles() {
    for (const button of Object.values(this.saves)) button.disabled = !this.isReady;
    if (!this.matrix.drawn.length) this.saves.SVG.disabled = this.saves.PNG.disabled = true;
    this.app.showTools();
  }

  showViews() {
    for (const button of this.choices) button.setAttribute("aria-pressed", String(button.dataset.view === this.app.state.view));
    if (this.chosen) this.showMatrix();
    return this.attribute();
  }
}
