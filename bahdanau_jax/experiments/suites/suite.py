"""Suites of experiments: the cells of a sweep, and the sections of its report."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bahdanau_jax.config import Config
from bahdanau_jax.experiments import sweep_report
from bahdanau_jax.experiments.results import Pairs, Results
from bahdanau_jax.experiments.run_sweep import sweep
from bahdanau_jax.experiments.sweep_cells import Cells, seed_folder, seed_range
from bahdanau_jax.experiments.sweep_definition import with_dtypes
from bahdanau_jax.report import DEFAULTS, Section, Settings
from bahdanau_jax.reporting import PLAIN, Reporter
from bahdanau_jax.suite_request import Request

MOST_UPDATES_LOST = 1000  # of a long training that is killed
PERCENT = ("BLEU", "chrF")  # beginnings of the names of scores up to 100; the others end at 1


class Outcome(NamedTuple):
    """The runs of a suite, for its own sections."""

    workdir: Path  # with a folder for each cell
    cells: Cells  # the configurations by name
    results: Results  # the scores of all runs

    def folder(self, cell: str, seed: int | None = None) -> Path:
        """The folder of a run; by default that of the first seed with scores."""
        first = min(self.results.scores[cell]) if seed is None else seed
        return seed_folder(self.workdir, cell, first)

    def caption(self, of: str) -> str:
        """The caption of `intervals` over seeds that are called `of`."""
        if self.results.have_intervals:
            return f"Means over the {of}s with their 95% intervals; each ring is a {of}."
        return f"Each ring is the only {of} of a cell, so that there are no intervals."

    def intervals(self, metric: str, cells: Mapping[str, str]) -> dict[str, tuple[float, ...]]:
        """The mean of a score over the seeds, the ends of its interval, and the score of each seed.

        `cells` maps the names in a figure to cells; those without the score are left out. The ends
        stay within the scale of the score, which Student's t does not know.
        """
        full = 100 if metric.startswith(PERCENT) else 1
        rows = {}
        for name, cell in cells.items():
            if each := self.results.summary(cell, metric):
                ends = (max(each.low, 0.0), min(each.high, float(full)))  # NaN stays NaN
                rows[name] = (each.mean, *ends, *self.results.values(cell, metric).values())
        return rows


class Suite(NamedTuple):
    """An experiment: its cells, and the sections of its report."""

    title: str  # of the report
    text: str  # what it reproduces, in some sentences
    source: str  # where the experiment or its method was published
    cells: Callable[[Request], Cells]  # raises ValueError for options that do not fit
    sections: Callable[[Outcome], Sequence[Section]]  # shown before the table of all scores
    metrics: Sequence[str]  # the scores of that table
    seeds: int = 1  # of each cell
    settings: Settings = DEFAULTS  # how the runs are scored
    tests: Callable[[Request], Mapping[str, str]] = lambda request: {}  # further ones, by name
    # The cells of the paired tests; None: each cell with the first one.
    pairs: Callable[[Cells], Pairs | None] = lambda cells: None
    takes_corpora: bool = False  # whether it reads corpora of the user's own


PAPER = (
    "D. Bahdanau, K. Cho and Y. Bengio, Neural Machine Translation by Jointly Learning to Align "
    "and Translate, ICLR 2015, https://arxiv.org/abs/1409.0473"
)
QUICK_SEEDS = 2
DEFAULT_REQUEST = Request()


def _corpora_options(request: Request) -> list[str]:
    """The options of a suite with corpora of the user's own that are set."""
    common = ("quick", "seeds", "first_seed", "steps", "compute_dtype", "processes")
    fields = [field for field in dataclasses.fields(request) if field.name not in common]
    return [field.name for field in fields if getattr(request, field.name) != field.default]


def requested_cells(suite: Suite, request: Request) -> Cells:
    """The cells of a suite, with the requested compute dtype in place of its own.

    >>> requested_cells(SUITES["ablations"], Request(compute_dtype="float32"))["attention"].model
    """
    cells = suite.cells(request)
    dtype = {"compute_dtype": request.compute_dtype} if request.compute_dtype else {}
    return {name: with_model(config, **dtype) for name, config in cells.items()}


def reproduce(
    suite: Suite, workdir: Path, request: Request = DEFAULT_REQUEST, reporter: Reporter = PLAIN
) -> tuple[str, Mapping[str, str]]:
    """Run a suite in a folder, or resume it, and write its report.

    Returns its table of scores as text, and the errors of the runs that failed by "CELL/seed-N".
    Raises ValueError for faults of the options, before any training.

    >>> text, failed = reproduce(SUITES["ablations"], Path("runs/a"), Request(quick=True))
    """
    if not suite.takes_corpora and (unread := _corpora_options(request)):
        raise ValueError(f"--{unread[0].replace('_', '-')} is an option of the suite paper only")
    for name in ("steps", "longer_steps", "seeds"):
        if getattr(request, name) < 0:
            raise ValueError(f"--{name.replace('_', '-')} should be at least 0")
    workdir = Path(workdir)
    cells = with_dtypes(requested_cells(suite, request), workdir)
    count = request.seeds or (min(QUICK_SEEDS, suite.seeds) if request.quick else suite.seeds)
    seeds = seed_range(request.first_seed, count)
    results = sweep(
        cells,
        workdir,
        seeds,
        settings=suite.settings,
        tests=suite.tests(request),
        processes=request.processes,
        reporter=reporter,
    )
    reporter.stage("drawing and writing the report")
    parts = [Section("What this is", f"{suite.text} Source: {suite.source}.")]
    if any(results.scores.values()):
        parts += suite.sections(Outcome(workdir, cells, results))
    title = f"{suite.title} (quick: it proves nothing)" if request.quick else suite.title
    pairs = suite.pairs(cells)
    text = sweep_report.write(workdir, results, cells, suite.metrics, title, parts, pairs)
    return text, results.failed


def folder(name: str) -> str:
    """The name of a cell as that of a folder.

    >>> folder("RNNsearch-50, longer"), folder("fixed context")
    ('RNNsearch-50-longer', 'fixed-context')
    """
    return re.sub("[ ,]+", "-", name)


def shortened(config: Config, steps: int, every: int = 0) -> Config:
    """The configuration with this number of updates, and an evaluation and a save every `every`.

    With 0, they happen at the middle and at the end. A long training also saves in between.
    """
    every = every or -(-steps // 2)
    training = dataclasses.replace(
        config.training,
        steps=steps,
        evaluate_every=every,
        checkpoint_every=min(every, max(MOST_UPDATES_LOST, config.training.checkpoint_every)),
        log_every=20,
    )
    return dataclasses.replace(config, training=training)


def reduced(
    config: Config, request: Request, steps: int, pairs: tuple[int, int, int], **model: int
) -> Config:
    """The configuration with the requested updates; with `quick`, few pairs and a small model too.

    `pairs` are those of train, dev and test; `steps` is the number of updates with `quick`.
    """
    if request.quick or request.steps:
        config = shortened(config, request.steps or steps)
    if request.quick:
        train, dev, test = pairs
        config = with_pairs(with_model(config, **model), train=train, dev=dev, test=test)
    return config


def with_pairs(config: Config, **pairs: int) -> Config:
    """The configuration with these numbers of pairs of its built-in corpora: train, dev, test."""
    settings = {
        split: re.sub(r"pairs=\d+", f"pairs={count}", getattr(config.data, split))
        for split, count in pairs.items()
    }
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **settings))


def with_model(config: Config, **settings: object) -> Config:
    return dataclasses.replace(config, model=dataclasses.replace(config.model, **settings))
