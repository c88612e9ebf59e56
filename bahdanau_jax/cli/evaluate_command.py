"""bahdanau evaluate --run DIR --source F --reference F"""

import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import tyro

from bahdanau_jax import run_folder
from bahdanau_jax.cli import lines, options, progress
from bahdanau_jax.cli.completeness import Completeness
from bahdanau_jax.cli.runs import check_runs, load
from bahdanau_jax.config import Config, DecodingConfig
from bahdanau_jax.reported_scores import decimals
from bahdanau_jax.reporting import Reporter, say

if TYPE_CHECKING:
    from bahdanau_jax.report import run_scores
    from bahdanau_jax.trained import Run

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluate:
    """Translate a file and score it against its reference.

    Scores are printed as 'BLEU 93.1' on stderr. One JSON object on stdout has all numbers. With
    --output, a folder gets a page, tables, pictures and translations.
    """

    # the folder of a trained model, or one of its checkpoints, DIR@STEP; repeat it for an ensemble
    run: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction]
    source: Path  # text to translate, one sentence a line, also .gz or .xz
    reference: Path  # its translation, line by line
    output: Path | None = None  # a folder for the report: index.html, report.md, scores.json, ...
    baseline: Path | None = None  # a file of translations, a run, or DIR@STEP, to compare with
    tokenize: str = "13a"  # the words of BLEU
    beam_size: int | None = None  # hypotheses in the beam; default: the run's setting
    max_ratio: float | None = None  # steps for each source token; default: the run's setting
    length_normalization: str | None = None  # of the score; default: the run's setting
    alpha: float | None = None  # exponent of wu's length normalisation; default: the run's setting
    coverage: float | None = None  # weight of coverage in the score; default: the run's setting
    length_bins: str = "10,20,30,40,50,60"  # the last length of each bin of source words
    resamples: int = 1000  # bootstrap resamples for the intervals
    seed: int = 12345  # the seed of the resamples
    trust_code: bool = False  # import the module that the run names (module:attribute), if it does

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau evaluate --run runs/quickstart --source a.en --reference a.fr --output report",
        "bahdanau evaluate --run runs/a --source a.en --reference a.fr --baseline runs/b",
        "bahdanau evaluate --run runs/a --run runs/b --source a.en --reference a.fr",
    )


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Evaluate, arguments, "bahdanau evaluate")
    _check(chosen)
    sources, references, theirs = _read(chosen)
    check_runs([*chosen.run, *([chosen.baseline] if chosen.baseline and theirs is None else [])])
    if chosen.output is not None:
        _make(chosen.output)
    with progress.reporter(progress.on_terminal()) as reporter:
        model, evaluated = _evaluated(chosen, sources, references, theirs, reporter)
        evaluated.scores["pairs"] = f"text:{chosen.source},{chosen.reference}"
        if chosen.output is not None:
            from bahdanau_jax.report import report

            reporter.stage("drawing and writing the report")
            report.write_evaluation(chosen.output, model, evaluated)
    from bahdanau_jax.report import publish

    for line in _shown(evaluated.scores):
        say(line)
    watch = Completeness(evaluated.scores["search"]["max_ratio"])
    watch(0, [[best] for best in evaluated.hypotheses])
    watch.report()
    print(publish.as_json(evaluated.scores), end="")


def _evaluated(
    chosen: Evaluate,
    sources: Sequence[str],
    references: Sequence[str],
    theirs: Sequence[str] | None,
    reporter: Reporter,
) -> tuple["Run", "run_scores.Evaluated"]:
    """The run and its scores."""
    reporter.stage("loading the model")
    from bahdanau_jax import trained, variants
    from bahdanau_jax.report import run_scores

    settings = run_scores.Settings(
        tokenize=chosen.tokenize,
        resamples=chosen.resamples,
        seed=chosen.seed,
        length_bins=_edges(chosen.length_bins),
        **{name: getattr(chosen, name) for name in run_scores.SEARCH},
    )
    run_scores.check(sources, references, settings)
    variants.check(Config(decoding=DecodingConfig(**settings.search())))
    members, baseline = load(chosen.run, chosen.trust_code), None
    model = trained.ensemble(members)
    _warn_about_unused(chosen.run[0], settings.search(), model)
    if chosen.baseline is not None:
        if theirs is None:
            (other,) = load([chosen.baseline], chosen.trust_code)
            _warn_about_unused(chosen.baseline, settings.search(), other)
            stage = reporter.stage("translating with the baseline", len(sources), "lines")
            best = other.translate(sources, advance=stage.advance, **settings.search())
            theirs = [hypothesis.text for hypothesis in best]
        name, *_ = run_folder.ends([path.resolve() for path in (chosen.baseline, *chosen.run)])
        baseline = run_scores.Baseline(name, theirs)
    return model, run_scores.evaluate(model, sources, references, settings, baseline, reporter)


def _warn_about_unused(folder: Path, search: Mapping[str, Any], model: "Run") -> None:
    """Warn about each option of the search that has no effect with the other settings."""
    from bahdanau_jax.variants import without_effect

    settings = Config(decoding=model.searching(**search))
    for field, other, value in without_effect(settings, [f"decoding.{name}" for name in search]):
        option = field.replace("decoding.", "--").replace("_", "-")
        log.warning(f"{folder}: {option} counts only with {other} {value}")


def _read(chosen: Evaluate) -> tuple[list[str], list[str], list[str] | None]:
    """Sources, references, and the baseline's translations if they are in a file."""
    sources, references = lines.read_all(chosen.source), lines.read_all(chosen.reference)
    if not sources:
        raise ValueError(f"{chosen.source} is empty; expected one sentence a line")
    _check_counts(chosen, sources, chosen.reference, references)
    if chosen.baseline is None or run_folder.split(chosen.baseline)[0].is_dir():
        return sources, references, None
    theirs = lines.read_all(chosen.baseline)
    _check_counts(chosen, sources, chosen.baseline, theirs)
    return sources, references, theirs


def _check(chosen: Evaluate) -> None:
    """Check the options before the model is loaded, which takes seconds."""
    if chosen.seed < 0:
        raise ValueError(f"--seed is {chosen.seed}, but should be at least 0")
    _edges(chosen.length_bins)


def _make(output: Path) -> None:
    """Make the folder; otherwise the search would run before it turns out that this fails."""
    if output.exists() and not output.is_dir():
        raise ValueError(f"--output should be a folder, but {output} is a file")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=output):
        pass


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
            f"--length-bins is {text!r}, but should be increasing numbers, such as 10,20,30"
        ) from None


def _shown(scores: Mapping[str, Any]) -> Iterator[str]:
    """A line for each score, and for each difference from the baseline."""
    for name, value in scores.items():
        if isinstance(value, float | int) and not isinstance(value, bool):
            yield readable(name, value)
    for name, metric in scores.get("comparison", {"metrics": {}})["metrics"].items():
        yield f"{name}-difference {metric['difference']:+.1f} (p {metric['p_bootstrap']:.4f})"


def readable(name: str, value: float) -> str:
    """A score in a line.

    >>> readable("BLEU", 93.0741)
    'BLEU 93.1'
    """
    return f"{name} {value}" if type(value) is int else f"{name} {value:.{decimals(name, 1)}f}"
