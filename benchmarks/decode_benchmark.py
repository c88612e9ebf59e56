"""Times the translation by a trained model and by JoeyNMT, and measures the memory of search.

The rounds of the two alternate, each with its fastest settings. A ratio is the median of the ratios
of consecutive rounds.
"""

import dataclasses
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bahdanau_jax import data, model
from bahdanau_jax.batch import EOS
from bahdanau_jax.decoding import below
from bahdanau_jax.evaluation import scores
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.trained import Run, load
from benchmarks import machine, peers
from benchmarks.peers import process, recipe
from benchmarks.search_memory import memory

ALPHA = 1.0  # exponent of Wu et al.'s length normalisation, which both programs have
# The settings of our search, which are those of JoeyNMT, not those of the run.
SEARCH: Mapping[str, Any] = MappingProxyType(
    {
        "method": "beam",
        "shrink": False,
        "length_normalization": "wu",
        "alpha": ALPHA,
        "coverage": 0.0,
        "min_ratio": 0.0,
        "max_ratio": 1.5,  # JoeyNMT: 1.5 times the longest source of the batch
        "ban_unk": False,
    }
)
PACKAGES = ("jax", "jaxlib", "numpy")

Settings = dict[str, Any]


class Round(NamedTuple):
    """One translation of the whole text."""

    seconds: float
    cpu_seconds: float  # of all threads together
    texts: list[str]
    tokens: int  # output tokens without EOS
    each: Sequence[float] = ()  # seconds of each sentence, where they are translated one by one


class Side(NamedTuple):
    """A program that translates the text, and the candidates for its settings."""

    translate: Callable[[int, Settings], Round]  # (beam size, settings)
    choices: Mapping[str, Sequence[Any]]
    counted: str  # a description of the measured work


class Text(NamedTuple):
    sources: list[str]
    references: list[str]


def run(
    folder: Path,
    python: Path | None = None,
    peer_folder: Path | None = None,
    peer_updates: int = 1_000,
    corpus: str = "",
    sentences: int = 0,
    beams: Sequence[int] = (1, 5),
    batch_sizes: Sequence[int] = (16, 32, 64, 128),
    rounds: int = 5,
    with_memory: bool = True,
    trust_code: bool = False,
) -> dict[str, Any]:
    """Measure the run in `folder` on `corpus`, by default its test corpus.

    With `python`, that of an environment with JoeyNMT, also measure a JoeyNMT model of the same
    sizes and vocabulary. It is trained for `peer_updates` on the same pairs and kept in
    `peer_folder`.
    """
    ours = load(folder, trust_code=trust_code)
    text = text_of(ours, corpus, sentences)
    results: dict[str, Any] = {"machine": machine.describe(PACKAGES), "device": machine.device()}
    results["run"] = _described(ours)
    with ExitStack() as stack:
        sides = {
            "ours": _ours(ours, text, batch_sizes),
            "ours in bfloat16": _ours(ours, text, batch_sizes, "bfloat16"),
            "ours from text": _from_text(ours, text, batch_sizes),
        }
        if python is not None:
            home = (peer_folder or folder / "peer-joeynmt").absolute()
            for name, keep in (("joeynmt", True), ("joeynmt as it comes", False)):
                peer = stack.enter_context(peers.joeynmt(ours, python, home, peer_updates, keep))
                sides[name] = _joeynmt(peer, ours, text, batch_sizes, keep)
                results.setdefault("peer", peer.greeting)
            results["peer"] |= {"updates": peer_updates, **recipe.sizes(ours.config)}
        results["text"] = measured(ours, text)
        results["search"] = dict(SEARCH)
        results["counted"] = {name: side.counted for name, side in sides.items()}
        results["beams"] = {str(beam): compare(sides, beam, rounds, text) for beam in beams}
    results["below"] = _below(ours, text, beams)
    if with_memory:
        try:
            results["memory"] = memory()
        except process.Failure as error:  # such as one that takes too much memory
            results["memory"] = {"failed": str(error)}
    return results


def _below(run: Run, text: Text, beams: Sequence[int]) -> dict[str, int]:
    """The number of sentences whose score is worse than with a narrower beam, as "5 than 1"."""
    by_beam = {
        beam: run.translate(text.sources, beam_size=beam, compute_dtype="float32", **SEARCH)
        for beam in sorted({1, *beams})
    }
    return {
        f"{wide} than {narrow}": len(below(by_beam[wide], by_beam[narrow]))
        for narrow, wide in itertools.combinations(by_beam, 2)
    }


def compare(sides: Mapping[str, Side], beam: int, rounds: int, text: Text) -> dict[str, Any]:
    """Tune each program, then run the rounds in turn; `ratio` compares each with later ones."""
    tuned = {name: tune(side, beam) for name, side in sides.items()}
    turns = [
        {name: side.translate(beam, tuned[name]["settings"]) for name, side in sides.items()}
        for _ in range(rounds)
    ]
    results: dict[str, Any] = {
        name: {**settings, **_rates([turn[name] for turn in turns], text)}
        for name, settings in tuned.items()
    }
    for name, other in itertools.combinations(sides, 2):
        ratios = [turn[other].seconds / turn[name].seconds for turn in turns]
        results[f"{name} over {other}"] = {
            "ratio": round(statistics.median(ratios), 2),
            "ratios": [round(ratio, 2) for ratio in ratios],
        }
    return results


def tune(side: Side, beam: int) -> dict[str, Any]:
    """Find the fastest settings by changing one at a time. The second of two calls counts.

    `first_call_seconds` are those of the first call, which may compile.
    """
    best = {name: values[0] for name, values in side.choices.items()}
    seconds: dict[tuple, tuple[float, float]] = {}

    def cost(settings: Settings) -> float:
        key = tuple(settings.values())
        if key not in seconds:
            first, second = (side.translate(beam, settings).seconds for _ in range(2))
            seconds[key] = first, second
        return seconds[key][1]

    for name, values in side.choices.items():
        best = min(({**best, name: value} for value in values), key=cost)
    return {
        "settings": best,
        "first_call_seconds": round(seconds[tuple(best.values())][0], 2),
        "tried": [
            {**dict(zip(best, key, strict=True)), "seconds": round(second, 2)}
            for key, (_, second) in seconds.items()
        ],
    }


def _rates(rounds: Sequence[Round], text: Text) -> dict[str, Any]:
    seconds = statistics.median(turn.seconds for turn in rounds)
    texts, tokens = rounds[-1].texts, rounds[-1].tokens
    return {
        "sentences_per_second": round(len(texts) / seconds, 1),
        "tokens_per_second": round(tokens / seconds),
        "tokens_per_sentence": round(tokens / len(texts), 2),
        "seconds": [round(turn.seconds, 6) for turn in rounds],
        "cpu_seconds": [round(turn.cpu_seconds, 3) for turn in rounds],
        "bleu_lowercased": round(scores.bleu(texts, text.references, lowercase=True).score, 1),
    }


def _ours(run: Run, text: Text, batch_sizes: Sequence[int], compute_dtype: str = "float32") -> Side:
    """Our search for the same work as JoeyNMT's: tokens in, tokens out."""
    words = [recipe.to_words(run.codecs[0], line) for line in text.sources]
    target = run.codecs[1]

    def translate(beam: int, settings: Settings) -> Round:
        settings = {**settings, "compute_dtype": compute_dtype}
        hypotheses, seconds = _timed(numbered, words, beam, settings)
        ids = [recipe.to_ids(best.text) for best in hypotheses]
        return Round(*seconds, [target.decode([*line, EOS]) for line in ids], sum(map(len, ids)))

    numbered = recipe.numbered(run)
    counted = (
        "Run.translate: tokens in, batches, search with the alignment and the probability of every "
        "token, tokens out; tokenising and detokenising are not counted"
    )
    if compute_dtype != "float32":
        counted = f"as ours, with compute dtype {compute_dtype}"
    return Side(translate, {"batch_size": batch_sizes}, counted)


def _from_text(run: Run, text: Text, batch_sizes: Sequence[int]) -> Side:
    def translate(beam: int, settings: Settings) -> Round:
        settings = {**settings, "compute_dtype": "float32"}
        hypotheses, seconds = _timed(run, text.sources, beam, settings)
        tokens = sum(len(best.tokens) - best.finished for best in hypotheses)
        return Round(*seconds, [best.text for best in hypotheses], tokens)

    counted = "as ours, with ordinary text in and out: tokenising and detokenising are counted"
    return Side(translate, {"batch_size": batch_sizes}, counted)


def _timed(
    run: Run, lines: Sequence[str], beam: int, settings: Settings
) -> tuple[list[Hypothesis], tuple[float, float]]:
    """The best hypothesis of each line, and the seconds and CPU seconds of the search."""
    start, cpu = time.perf_counter(), time.process_time()
    hypotheses = run.translate(lines, beam_size=beam, **SEARCH, **settings)
    return hypotheses, (time.perf_counter() - start, time.process_time() - cpu)


def _joeynmt(
    peer: peers.Peer, run: Run, text: Text, batch_sizes: Sequence[int], keep: bool
) -> Side:
    source, target = run.codecs
    words = [recipe.to_words(source, line) for line in text.sources]
    orders = {
        "by length": sorted(range(len(words)), key=lambda row: words[row].count(" ")),
        "as given": list(range(len(words))),
    }

    def translate(beam: int, settings: Settings) -> Round:
        order = orders[settings["order"]]
        answer = peer.ask(
            lines=[words[row] for row in order],
            beam_size=beam,
            alpha=ALPHA,
            batch_size=settings["batch_size"],
            threads=settings["threads"],
            precision=settings["precision"],
        )
        ids: list[Sequence[int]] = [()] * len(words)
        for row, line in zip(order, answer["lines"], strict=True):
            ids[row] = recipe.to_ids(line)
        texts = [target.decode([*line, EOS]) for line in ids]
        return Round(answer["seconds"], answer["cpu_seconds"], texts, sum(map(len, ids)))

    threads = sorted({data.cores(), 1}, reverse=True)
    counted = (
        "joeynmt.prediction.predict in torch.inference_mode: tokens in, batches, search without "
        "alignments, tokens out; tokenising and detokenising are not counted"
    )
    if keep:
        counted += "; its process reuses freed memory, as ours does"
    choices = {"batch_size": batch_sizes, "threads": threads, "order": list(orders)}
    return Side(translate, {**choices, "precision": ["float32", "bfloat16"]}, counted)


def text_of(run: Run, corpus: str, sentences: int, longest: float = math.inf) -> Text:
    """The first sentences of a corpus, by default the run's test corpus, and their references.

    `sentences` is 0 for all; `longest` is in characters. Raises ValueError where there is none.
    """
    spec = corpus or run.config.data.test
    if not spec:
        raise ValueError("the run has no test corpus: name one with --corpus text:F,F")
    short = (pair for pair in _translatable(spec, run) if len(pair[0]) <= longest)
    pairs = list(itertools.islice(short, sentences or None))
    if not pairs:
        raise ValueError(f"{spec} has no sentence to translate")
    return Text(*(list(side) for side in zip(*pairs, strict=True)))


def _translatable(spec: str, run: Run) -> Iterator[tuple[str, str]]:
    for pair in data.pairs(spec, run.config.data):
        if pair.source.strip() and len(run.codecs[0].encode(pair.source)) > 1:
            yield pair.source, pair.target


def _described(run: Run) -> dict[str, Any]:
    return {"parameters": model.count(run.params), "model": dataclasses.asdict(run.config.model)}


def measured(run: Run, text: Text) -> dict[str, Any]:
    """The number of sentences, and their lengths in tokens."""
    lengths = [len(run.codecs[0].encode(line)) - 1 for line in text.sources]
    references = [len(run.codecs[1].encode(line)) - 1 for line in text.references]
    return {
        "sentences": len(lengths),
        "source_tokens_per_sentence": round(statistics.mean(lengths), 2),
        "reference_tokens_per_sentence": round(statistics.mean(references), 2),
        "longest_source": max(lengths),
    }
