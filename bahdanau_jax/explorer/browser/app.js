// The page: reads its content and its address, and connects the form with the panels.

import { isDark } from "./colours.js";
import { byId, h } from "./elements.js";
import { Engine } from "./engine.js";
import { fresh, isOtherTranslation, oneLine, read, reset, write } from "./page_state.js";
import { Panel } from "./panel.js";
import { Tour } from "./tour.js";
import { fromBase64 } from "./weights.js";

const BEAMS = [1, 2, 3, 5, 8, 12];

class App {
  constructor(content, engines) {
    Object.assign(this, { content, engines });
    this.sentences = content.sentences.map((each) => ({ ...each, text: oneLine(each.text) }));
    const { beam_size: beam } = content.models[0].decoding;
    this.defaults = { ...fresh(engines.length, beam), sentence: this.sentences[0]?.text ?? "" };
    this.state = this.read();
    this.panels = engines.map((engine, i) => new Panel(this, engine, i, engines.length > 1));
    byId("panels").classList.toggle("two", engines.length > 1);
    byId("panels").replaceChildren(...this.panels.map((panel) => panel.element));
    this.tour = new Tour(this, byId("tour"));
    this.form();
    this.tools();
  }

  // The state that the address has.
  read() {
    return read(location.hash, this.defaults, this.engines.map((engine) => engine.isRecorded));
  }

  // Examples with one text may have several references, so that the text alone does not tell them apart.
  sentenceIndex() {
    const { sentence, example } = this.state;
    return this.sentences[example]?.text === sentence ? example : this.sentences.findIndex(({ text }) => text === sentence);
  }

  form() {
    const language = this.content.models[0].source.rules.language;
    const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "none" });
    let name = null;
    try { name = names.of(language); } catch { /* no code of a language */ }
    byId("sentence-label").textContent = name ? `Sentence in ${name}` : "Sentence";
    const text = byId("sentence"), example = byId("example");
    example.append(h("option", { value: "-1" }, "your own"),
      ...this.sentences.map((each, i) => h("option", { value: i }, each.text)));
    byId("compose").addEventListener("submit", (event) => {
      event.preventDefault();
      this.begin(text.value);
    });
    text.lang = language;
    text.addEventListener("keydown", (event) => {
      // In Safari, only the code 229 says that the key ends a composition.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.begin(text.value);
    });
    text.addEventListener("input", () => this.grow());
    example.addEventListener("change", () => Number(example.value) >= 0
      && this.begin(this.sentences[example.value].text, Number(example.value)));
    this.switches();
    const hasRecorded = this.engines.some((engine) => engine.isRecorded);
    if (this.engines.every((engine) => engine.isRecorded)) {
      text.readOnly = byId("beam").disabled = true;
      byId("about").textContent = "This page shows recorded translations of a model. Choose an example, and see where each word looks.";
    } else if (this.content.models.every((model) => model.config.attention === "none")) {
      byId("about").textContent = byId("about").textContent.replace(" with attention", "");
    }
    byId("notice").textContent = [...new Set(this.content.models.flatMap((model) => model.remarks))].join(" ");
    byId("gold").closest("label").hidden = !this.content.models.some((model) => model.gold.some(Boolean));
    byId("tour-open").hidden = hasRecorded;
    byId("facts").textContent = this.content.models.map((model) => {
      const { attention, cell, order } = model.config, updates = model.updates === null ? "" : `, ${model.updates.toLocaleString("en")} updates`;
      return `${model.name}: ${model.parameters.toLocaleString("en")} parameters${updates}; score ${attention}, cell ${cell}, order ${order}.`;
    }).join(" ");
  }

  switches() {
    const whenChanged = (id, action) => byId(id).addEventListener("change", ({ target }) => {
      action(target);
      this.changed();
    });
    whenChanged("beam", ({ value }) => {
      this.state.beam = Number(value);
      this.translate(false);
    });
    whenChanged("unknown", ({ checked }) => {
      this.state.unknown = checked;
      this.panels.forEach((panel) => panel.show());
    });
    whenChanged("gold", ({ checked }) => {
      this.state.gold = checked;
      this.panels.forEach((panel) => panel.chosen && panel.showMatrix());
    });
  }

  tools() {
    const dark = byId("theme");
    const show = () => dark.setAttribute("aria-pressed", String(isDark()));
    show();
    const repaint = () => {
      this.panels.forEach((panel) => panel.chosen && panel.showMatrix());
      this.tour.renew();
    };
    dark.addEventListener("click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      show();
      repaint();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      show();
      repaint();
    });
    byId("copy-link").addEventListener("click", async ({ target }) => {
      try {
        await navigator.clipboard.writeText(location.href);
        target.textContent = "Copied";
      } catch {
        target.textContent = "Copy it from the address bar";
      }
      setTimeout(() => (target.textContent = "Copy link"), 2000);
    });
    byId("tour-open").addEventListener("click", () => this.tour.go(1));
    addEventListener("hashchange", () => {
      if (location.hash === write(this.state)) return;
      this.state = this.read();
      this.refresh();
    });
    let width = innerWidth, timer = 0;
    addEventListener("resize", () => {
      if (innerWidth === width) return; // the keyboard of a phone changes the height alone
      width = innerWidth;
      clearTimeout(timer);
      timer = setTimeout(() => this.panels.forEach((panel) => panel.show()), 150);
    });
  }

  // The tour explains the first translation.
  showTools() {
    byId("tour-open").disabled = !this.panels[0].isReady;
  }

  grow() {
    const text = byId("sentence");
    text.style.height = "auto";
    text.style.height = `${text.scrollHeight + 2}px`;
  }

  // Put the state into the form.
  fill() {
    byId("sentence").value = this.state.sentence;
    byId("example").value = String(this.sentenceIndex());
    const beams = [...new Set([...BEAMS, this.defaults.beam, this.state.beam])].sort((a, b) => a - b);
    byId("beam").replaceChildren(...beams.map((size) => h("option", { value: size }, size === 1 ? "1 (greedy)" : size)));
    byId("beam").value = String(this.state.beam);
    byId("unknown").checked = this.state.unknown;
    byId("gold").checked = this.state.gold;
    this.grow();
  }

  begin(sentence, example = this.state.example) {
    Object.assign(this.state, { sentence: oneLine(sentence), example });
    this.state.example = Math.max(0, this.sentenceIndex());
    reset(this.state);
    byId("fault").textContent = "";
    this.changed();
    this.fill();
    return this.translate(true);
  }

  // The button Back of the browser leads to the translation before; a selected word makes no step.
  changed() {
    const address = write(this.state), before = location.hash;
    const isStep = before !== "" && isOtherTranslation(before, address);
    try {
      history[isStep ? "pushState" : "replaceState"](null, "", address);
    } catch { /* some browsers refuse many changes in a short time */ }
  }

  showViews() {
    this.changed();
    return Promise.all(this.panels.map((panel) => panel.showViews()));
  }

  translate(isAnimated) {
    return Promise.all(this.panels.map((panel) => panel.translate(isAnimated).catch((error) => {
      panel.fail(error);
      throw error; // is shown in the page's line for faults, and in the browser's console
    })));
  }

  async refresh() {
    this.fill();
    this.panels.forEach((panel) => panel.choices.forEach((button) =>
      button.setAttribute("aria-pressed", String(button.dataset.view === this.state.view))));
    await this.translate(false);
    if (this.state.tour) await this.tour.go(this.state.tour);
    else this.tour.close();
  }
}

async function fetched(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`the server answers ${answer.status} for ${name}`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function bytesOf(data, place) {
  if (data.recorded) return null;
  if (data.weights) return fetched(data.weights);
  const element = byId(`weights-${place}`), bytes = fromBase64(element.textContent);
  element.remove();
  return bytes;
}

async function open() {
  const content = JSON.parse(byId("content").textContent);
  const engines = await Promise.all(content.models.map(async (data, i) => new Engine(data, await bytesOf(data, i))));
  const app = new App(content, engines);
  globalThis.explorer = { app, engines }; // for readers who like to look inside, and for tests
  await app.refresh();
  history.replaceState(null, "", write(app.state)); // also for a link that was written by hand
  document.documentElement.dataset.ready = Math.round(performance.now());
}

function showFault({ message }) {
  byId("fault").textContent = `The page has a fault: ${message}. Reload it to begin again.`;
}

addEventListener("error", showFault);
addEventListener("unhandledrejection", ({ reason }) => showFault(reason instanceof Error ? reason : { message: String(reason) }));
open();
