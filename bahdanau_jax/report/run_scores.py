"""Evaluates a model on a test set: computes all numbers of a report as one JSON object."""

import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bahdanau_jax import alignment
from bahdanau_jax.batch import EOS_SYMBOL, UNK
from bahdanau_jax.evaluation import (
    EDGES,
    Tally,
    behaviour,
    by_length,
    calibration,
    quality,
    scores,
    significance,
)
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.pairing import check_equal_counts
from bahdanau_jax.report import token_predictions
from bahdanau_jax.reporting import SILENT, Reporter
from bahdanau_jax.trained import Run

WORDS = "words"  # the kind of vocabulary that has unknown words
SEARCH = ("beam_size", "max_ratio", "length_normalization", "alpha", "coverage")  # in Settings
LARGEST_EXPONENT = math.log(sys.float_info.max)
Tallies = Mapping[str, Tally]  # name of a score -> its statistics
Part = dict[str, Any]  # of the scores, as JSON has it


@dataclass(frozen=True)
class Settings:
    """The settings of an evaluation, which are written to scores.json too."""

    tokenize: str = "13a"  # sacreBLEU's tokeniser for BLEU: a key of `tally.TOKENIZERS`
    resamples: int = significance.RESAMPLES  # of the bootstrap
    shuffles: int = significance.SHUFFLES  # of approximate randomisation
    seed: int = significance.SEED  # of the resamples and shuffles
    length_bins: tuple[int, ...] = EDGES  # source words of the longest sentence of each bin
    beam_size: int | None = None  # None, here and below: that of the run's configuration
    max_ratio: float | None = None  # steps for each source token
    length_normalization: str | None = None  # a key of `decoding.NORMALIZATIONS`
    alpha: float | None = None  # the exponent of `wu`
    coverage: float | None = None  # the weight of coverage in the score

    def search(self) -> dict[str, Any]:
        """The settings of the search that replace those of the run."""
        settings = {name: getattr(self, name) for name in SEARCH}
        return {name: value for name, value in settings.items() if value is not None}


DEFAULTS = Settings()


class Baseline(NamedTuple):
    """The translations of the same sentences by another system."""

    name: str  # as the report shows it
    texts: Sequence[str]  # one for each source


@dataclass(frozen=True)
class Evaluated:
    """A test set, its translations by the model, and their scores."""

    sources: Sequence[str]  # sentences, as they were read
    references: Sequence[str]  # one for each source
    hypotheses: Sequence[Hypothesis]  # the best of each source
    baseline: Baseline | None  # another system to compare with
    scores: dict[str, Any]  # see `evaluate`
    alphas: Sequence[Any] = ()  # of the references: those of token_predictions.Predictions

    @property
    def texts(self) -> list[str]:
        """The translations as text."""
        return [best.text for best in self.hypotheses]


def evaluate(
    run: Run,
    sources: Sequence[str],
    references: Sequence[str],
    settings: Settings = DEFAULTS,
    baseline: Baseline | None = None,
    reporter: Reporter = SILENT,
) -> Evaluated:
    """Translate `sources` and compute all scores of the translations.

    `scores` of the result contains the scores of `scores.table`, the main score of each part
    (BLEU-no-UNK, length-ratio, unfinished, UNK, perplexity, ECE, confidence-chrF), and each part
    under its own name: intervals, comparison (with a baseline), by-length, by-length-tokenized,
    no-UNK, lengths, repetition, coverage, calibration, quality, settings, search, checkpoint. The
    same arguments give the same numbers. An ensemble has its members' checkpoints in a list. Raises
    ValueError for no lines, or unequal numbers.

    >>> evaluate(load("runs/quickstart"), sources, references).scores["BLEU"]
    """
    check(sources, references, settings, baseline)
    tokenize = run.codecs[1].tokenizer.tokenize
    translating = reporter.stage("translating the test set", len(sources), "lines")
    hypotheses = run.translate(sources, advance=translating.advance, **settings.search())
    texts = [best.text for best in hypotheses]
    ours = scores.tallies(texts, references, tokenize, settings.tokenize)
    other = baseline.texts if baseline else ()
    theirs = scores.tallies(other, references, tokenize, settings.tokenize) if other else {}
    systems = {"output": texts, "reference": references}
    systems |= {"baseline": baseline.texts} if baseline else {}
    words = {name: [tokenize(line).split() for line in side] for name, side in systems.items()}
    scoring = reporter.stage("scoring the references", len(sources), "lines")
    predicted = token_predictions.predict(run, sources, references, scoring.advance)
    reporter.stage("computing scores and intervals")
    used = [member.chosen.to_json() if member.chosen else None for member in run.members]
    parts = {
        "intervals": _intervals(ours, settings),
        "comparison": _comparison(ours, theirs, baseline, settings) if baseline else None,
        **_by_length(run, sources, ours, theirs, settings),
        "no-UNK": _no_unk(run, sources, references, hypotheses, ours, settings, reporter),
        "lengths": _lengths(words),
        "repetition": {name: behaviour.repetition(side) for name, side in words.items()},
        "coverage": _coverage(hypotheses, predicted),
        "calibration": _calibration(run, references, hypotheses, predicted),
        "quality": quality.table(hypotheses, ours["chrF"], settings.resamples, settings.seed),
        "settings": dataclasses.asdict(settings),
        "search": dataclasses.asdict(run.searching(**settings.search())),
        "checkpoint": used if run.others else used[0],
    }
    table = {
        "sentences": len(references),
        **{name: tally.score() for name, tally in ours.items()},
        "BLEU-no-UNK": parts["no-UNK"]["BLEU"],
        **scores.sequence_table(texts, references, tokenize),
        "length-ratio": behaviour.length_ratio(words["output"], words["reference"]),
        **_faults(run, hypotheses),
        "perplexity": parts["calibration"]["perplexity"],
        "ECE": parts["calibration"]["ECE"],
        "confidence-chrF": parts["quality"]["measures"]["mean log p"]["spearman"],
        "signature": ours["BLEU"].signature,
        "chrF-signature": ours["chrF"].signature,
        "tokenized-signature": ours["BLEU-tokenized"].signature,
    }
    table |= {name: part for name, part in parts.items() if part is not None}
    return Evaluated(sources, references, hypotheses, baseline, table, predicted.alphas)


def check(
    sources: Sequence[str],
    references: Sequence[str],
    settings: Settings,
    baseline: Baseline | None = None,
) -> None:
    """Check the arguments of `evaluate` before its long search. Raises ValueError as it does."""
    sides = {"references": references} | ({"baseline": baseline.texts} if baseline else {})
    for name, lines in sides.items():
        check_equal_counts("sources", sources, f"lines of the {name}", lines)
    # These functions raise errors for wrong names and numbers.
    tally = scores.tallies(references[:1], references[:1], str, settings.tokenize)["BLEU"]
    by_length([1], tally, settings.length_bins, settings.resamples, settings.seed)
    if settings.shuffles < 1:
        raise ValueError(f"{settings.shuffles} shuffles: there should be at least one")


def _intervals(tallies: Tallies, settings: Settings) -> Part:
    intervals = significance.intervals(tallies, settings.resamples, settings.seed)
    return {name: list(interval) for name, interval in intervals.items()}


def _comparison(ours: Tallies, theirs: Tallies, baseline: Baseline, settings: Settings) -> Part:
    metrics = significance.compare(
        ours, theirs, settings.resamples, settings.shuffles, settings.seed
    )
    return {
        "baseline": baseline.name,
        "metrics": {
            name: metric._asdict() | {"interval": list(metric.interval)}
            for name, metric in metrics.items()
        },
    }


def _by_length(
    run: Run, sources: Sequence[str], ours: Tallies, theirs: Tallies, settings: Settings
) -> Part:
    """Two BLEU by the number of source words, or of characters for a model of characters."""
    codec, units = run.codecs[0], WORDS
    if run.config.data.vocabulary == "characters":
        units, lengths = "characters", [len(codec.units(line)) - 1 for line in sources]
    else:
        lengths = [len(codec.tokenize(line).split()) for line in sources]

    def bins(tally: Tally) -> list[dict[str, Any]]:
        binned = by_length(lengths, tally, settings.length_bins, settings.resamples, settings.seed)
        return [{"name": each.name, **each._asdict()} for each in binned]

    def part(name: str) -> Part:
        baseline = {"baseline": bins(theirs[name])} if theirs else {}
        return {"unit": units, "output": bins(ours[name]), **baseline}

    return {"by-length": part("BLEU"), "by-length-tokenized": part("BLEU-tokenized")}


def _no_unk(
    run: Run,
    sources: Sequence[str],
    references: Sequence[str],
    hypotheses: Sequence[Hypothesis],
    ours: Tallies,
    settings: Settings,
    reporter: Reporter,
) -> Part:
    """The second column of Table 1: sentences without unknown words, translated with UNK banned.

    A model of characters or subwords has nearly no unknown words: its subset is all sentences. To
    ban UNK does not change a greedy translation without UNK, which is not computed again. `ours`
    are the tallies of `hypotheses`.
    """
    rows, banned = list(range(len(sources))), run.config.data.vocabulary == WORDS
    allows = not run.config.decoding.ban_unk
    if banned:
        sides = zip(run.codecs, (sources, references), strict=True)
        known = [[UNK not in codec.encode(line) for line in side] for codec, side in sides]
        rows = [row for row in rows if known[0][row] and known[1][row]]
    allowed = [hypotheses[row].text for row in rows]
    decoding = run.searching(**settings.search(), ban_unk=True)
    greedy = (decoding.method, decoding.beam_size) == ("beam", 1)
    unknown = run.codecs[1].tokens([UNK])[0]
    again = [row for row in rows if not greedy or unknown in hypotheses[row].tokens]
    texts = dict(zip(rows, allowed, strict=True))
    if banned and again:
        translating = reporter.stage("translating without UNK", len(again), "lines")
        lines, advance = [sources[row] for row in again], translating.advance
        best = run.translate(lines, first=again, advance=advance, ban_unk=True, **settings.search())
        texts |= zip(again, (each.text for each in best), strict=True)
    before = counted = {name: tally.take(rows) for name, tally in ours.items()}
    if list(texts.values()) != allowed:
        tokenize, wanted = run.codecs[1].tokenizer.tokenize, [references[row] for row in rows]
        counted = scores.tallies([*texts.values()], wanted, tokenize, settings.tokenize)
    return {
        "sentences": len(rows),
        "share": len(rows) / len(sources),
        "banned": banned,
        **{name: counted[name].score() for name in scores.BLEUS},
        "intervals": _intervals(counted, settings) if rows else {},
        "UNK-allowed": {n: before[n].score() if allows else None for n in scores.BLEUS},
    }


def _lengths(words: Mapping[str, Sequence[Sequence[str]]]) -> Part:
    return {
        name: {
            "words": sum(map(len, side)),
            "ratio": behaviour.length_ratio(side, words["reference"]),
            "empty": sum(not line for line in side),
        }
        for name, side in words.items()
    }


def _faults(run: Run, hypotheses: Sequence[Hypothesis]) -> dict[str, float]:
    """The shares of translations that reached the length limit, and of output tokens UNK."""
    unknown = run.codecs[1].tokens([UNK])[0]
    tokens = [token for best in hypotheses for token in best.tokens if token != EOS_SYMBOL]
    return {
        "unfinished": sum(not best.finished for best in hypotheses) / len(hypotheses),
        "UNK": tokens.count(unknown) / len(tokens) if tokens else math.nan,
    }


def _coverage(hypotheses: Sequence[Hypothesis], predicted: token_predictions.Predictions) -> Part:
    totals = [alignment.coverage(best.alpha)[:-1] for best in hypotheses if best.tokens]  # no EOS
    reference = behaviour.coverage([predicted.attention])
    return {"output": behaviour.coverage(totals), "reference": reference}


def _calibration(
    run: Run,
    references: Sequence[str],
    hypotheses: Sequence[Hypothesis],
    predicted: token_predictions.Predictions,
) -> Part:
    wanted = (run.codecs[1].tokens(run.codecs[1].encode(line)) for line in references)
    kept = map(scores.in_common_subsequence, (best.tokens for best in hypotheses), wanted)
    log_p = [log_p for best in hypotheses for log_p in best.log_probabilities]
    return {
        "left-out": predicted.left_out,
        "perplexity": _exp(-predicted.log_p.mean()) if len(predicted.log_p) else math.nan,
        **calibration.table(predicted.confidence, predicted.correct),
        "output": calibration.table(np.clip(np.exp(log_p), 0, 1), np.concatenate([*kept])),
    }


def _exp(x: float) -> float:
    """e^x; infinity where it is above the largest float."""
    return math.exp(x) if x < LARGEST_EXPONENT else math.inf
