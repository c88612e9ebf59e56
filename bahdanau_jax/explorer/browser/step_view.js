// One step: where the model looks and what it would write. Both can be changed.

import { h, percent, rove, shown } from "./elements.js";
import { changeAt } from "./engine.js";

export class StepView {
  constructor(panel) {
    this.panel = panel;
    this.element = h("section", { class: "step" });
  }

  show(analysis, chosen, { selected, changes, isRecorded }) {
    const i = Math.min(selected ?? 0, chosen.steps.length - 1), step = chosen.steps[i];
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const change = changeAt(changes, i);
    this.element.replaceChildren(
      h("h3", {}, `Word ${i + 1} of ${chosen.steps.length}`),
      h("div", { class: "turn" },
        h("button", { type: "button", disabled: i === 0, "data-key": "before", onclick: () => this.panel.select(i - 1) }, "Previous"),
        h("strong", { dir: "auto", lang: this.panel.engine.languages.target }, shown(step.symbol)),
        h("button", { type: "button", disabled: i + 1 === chosen.steps.length, "data-key": "after",
          onclick: () => this.panel.select(i + 1) }, "Next")),
      h("div", { class: "halves" },
        h("div", {},
          h("h4", {}, "Where it looks"),
          this.weights(analysis.source, step, change, isRecorded),
          isRecorded ? null : this.gestures(i, change)),
        h("div", {},
          h("h4", {}, "What it would write"),
          this.alternatives(step, i, isRecorded),
          isRecorded ? null : this.anyWord(i))),
    );
    if (focused) this.refocus(focused);
  }

  // The same control as before, or the first one where it is gone.
  refocus(key) {
    const same = this.element.querySelector(`[data-key="${CSS.escape(key)}"]:not(:disabled)`);
    (same ?? this.element.querySelector("button:not(:disabled)"))?.focus();
  }

  row(symbol, lang, share, properties, isRecorded) {
    const parts = [h("span", { class: "name", dir: "auto", lang }, shown(symbol)),
      h("span", { class: "track" }, h("span", { class: "fill", style: { "--p": share.toFixed(4) } })),
      h("span", { class: "number" }, percent(share))];
    return h("li", {}, isRecorded ? h("span", { class: "row" }, parts)
      : h("button", { type: "button", ...properties, class: `row ${properties.class ?? ""}` }, parts));
  }

  weights(source, step, change, isRecorded) {
    const { languages } = this.panel.engine;
    const rows = source.map((symbol, j) => this.row(symbol, languages.source, step.alpha[j], {
      "data-key": `look-${j}`, "aria-pressed": String(change === String(j)),
      "aria-label": `${shown(symbol)}, attention ${percent(step.alpha[j])}. Look here only.`,
      onclick: () => this.panel.look(j) }, isRecorded));
    const list = h("ul", { class: `rows${change === null ? "" : " changed"}` }, rows);
    if (!isRecorded) rove(list, "button");
    return list;
  }

  gestures(i, change) {
    const button = (name, how) => h("button", { type: "button", "data-key": `how-${how}`,
      "aria-pressed": String(change === how), onclick: () => this.panel.change(i, how) }, name);
    return h("div", { class: "gestures" }, button("Look everywhere", "all"), button("Look at nothing", "none"),
      change === null ? null : button("As the model does", null));
  }

  alternatives(step, i, isRecorded) {
    const { languages } = this.panel.engine;
    const rows = step.likeliest.map(({ symbol, token, logP }) => this.row(symbol, languages.target, Math.exp(logP), {
      "data-key": `word-${token}`, class: symbol === step.symbol ? "chosen" : "",
      "aria-pressed": String(symbol === step.symbol),
      "aria-label": `${shown(symbol)}, probability ${percent(Math.exp(logP))}. Write this word.`,
      onclick: () => this.panel.force(i, [token]) }, isRecorded));
    const list = h("ul", { class: "rows" }, rows);
    if (!isRecorded) rove(list, "button");
    return list;
  }

  anyWord(i) {
    const input = h("input", { type: "text", "aria-label": "Another word", placeholder: "another word", autocomplete: "off", "data-key": "other" });
    const answer = h("p", { class: "answer", role: "status" });
    const submit = (event) => {
      event.preventDefault();
      const ids = this.panel.engine.typedIds(input.value);
      if (ids.length) this.panel.force(i, ids);
      else answer.textContent = "The model's vocabulary does not have this word.";
    };
    return h("form", { class: "other", onsubmit: submit }, input, h("button", { type: "submit" }, "Write it"), answer);
  }
}
