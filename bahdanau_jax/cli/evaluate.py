"""bahdanau evaluate --run DIR --source F --reference F"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bahdanau_jax.cli import lines, options


@dataclass(frozen=True)
class Evaluate:
    """Translate a file and score it against its reference.

    Scores are printed as 'BLEU 93.1' on stderr and, with everything else known of them, as one
    JSON object on stdout. With --output, a folder gets a page, tables, pictures and translations.
    """

    run: Path  # the folder of a trained model
    source: Path  # text to translate, one sentence a line, also .gz or .xz
    reference: Path  # its translation, line by line
    output: Path | None = None  # a folder for the report: index.html, report.md, scores.json, ...
    baseline: Path | None = None  # to compare with: a file of translations, or another run's folder
    tokenize: str = "13a"  # of BLEU: 13a, intl, none, or for Chinese zh or char
    beam_size: int | None = None  # hypotheses kept in search; as the run is configured
    length_bins: str = "10,20,30,40,50,60"  # the last length of each bin of source words
    resamples: int = 1000  # of the sentences, for the intervals
    seed: int = 12345  # of the resamples


# Decimals of the scores that do not run from 0 to 100; those have one.
DECIMALS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("AER", "length-ratio", "perplexity"), 2),
        **dict.fromkeys(("PSA", "LCSR", "GeoMean", "PSA-seed", "LCSR-seed", "GeoMean-seed"), 3),
        **dict.fromkeys(("accuracy", "exact", "loss", "ECE", "unfinished", "UNK"), 3),
    }
)


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Evaluate, arguments, "evaluate")
    sources, references = lines.read_all(chosen.source), lines.read_all(chosen.reference)
    if not sources:
        raise ValueError(f"{chosen.source} is empty; expected one sentence a line")
    _check_counts(chosen, sources, chosen.reference, references)
    edges = _edges(chosen.length_bins)
    if chosen.beam_size is not None and chosen.beam_size < 1:
        raise ValueError(f"--beam-size is {chosen.beam_size}, but should be at least 1")
    if chosen.seed < 0:
        raise ValueError(f"--seed is {chosen.seed}, but should be at least 0")
    theirs = _other_lines(chosen, sources)
    if chosen.output is not None:
        _check_folder(chosen.output)
    from bahdanau_jax import run
    from bahdanau_jax.experiments import evaluation, publish, report

    settings = evaluation.Settings(
        tokenize=chosen.tokenize,
        resamples=chosen.resamples,
        seed=chosen.seed,
        length_bins=edges,
        beam_size=chosen.beam_size,
    )
    evaluation.check(sources, references, settings)
    model = run.load(chosen.run)
    if chosen.baseline is not None and theirs is None:
        other = run.load(chosen.baseline).translate(sources, beam_size=chosen.beam_size)
        theirs = [best.text for best in other]
    baseline = None
    if chosen.baseline is not None and theirs is not None:
        baseline = evaluation.Baseline(chosen.baseline.resolve().name, theirs)
    evaluated = evaluation.evaluate(model, sources, references, settings, baseline)
    for name, value in evaluated.scores.items():
        if isinstance(value, float | int) and not isinstance(value, bool):
            print(readable(name, value), file=sys.stderr)
    for line in _differences(evaluated.scores):
        print(line, file=sys.stderr)
    if chosen.output is not None:
        report.write_evaluation(chosen.output, model, evaluated)
    print(publish.as_json(evaluated.scores), end="")


def _check_counts(
    chosen: Evaluate, sources: Sequence[str], path: Path, others: Sequence[str]
) -> None:
    if len(sources) != len(others):
        raise ValueError(
            f"{chosen.source} has {len(sources)} lines, but {path} has {len(others)}; line i of one"
            " should translate line i of the other"
        )


def _edges(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"--length-bins is {text!r}, but should be numbers that grow, such as 10,20,30"
        ) from None


def _check_folder(folder: Path) -> None:
    """Before the search: what cannot be written would be found out after it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def _other_lines(chosen: Evaluate, sources: Sequence[str]) -> list[str] | None:
    """The baseline's translations, where a file has them."""
    if chosen.baseline is None or chosen.baseline.is_dir():
        return None
    texts = lines.read_all(chosen.baseline)
    _check_counts(chosen, sources, chosen.baseline, texts)
    return texts


def _differences(scores: Mapping) -> list[str]:
    """Of each metric, how far it lies above the baseline's, and how likely that is by chance."""
    comparison = scores.get("comparison", {"metrics": {}})
    return [
        f"{name}-difference {one['difference']:+.1f} (p {one['p_bootstrap']:.4f})"
        for name, one in comparison["metrics"].items()
    ]


def readable(name: str, value: float) -> str:
    """
    >>> readable("BLEU", 93.0741)
    'BLEU 93.1'
    """
    return f"{name} {value}" if type(value) is int else f"{name} {value:.{DECIMALS.get(name, 1)}f}"
