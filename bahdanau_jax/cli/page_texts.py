"""The sentences of the explorer's page, which `explore` and `export` read alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bahdanau_jax.cli import lines, options
from bahdanau_jax.cli.runs import check_runs

if TYPE_CHECKING:
    from bahdanau_jax.alignment import GoldFile


@dataclass(frozen=True)
class Files:
    """The options of a page."""

    input: Path | None = None  # sentences of the page, one a line; default: of the test corpus
    reference: Path | None = None  # a file with their translations
    gold: Path | None = None  # gold links between both: Pharaoh with '?' for possible ones, or .wa


class Texts(NamedTuple):
    """Sentences, their translations, and gold links between both; each may be empty."""

    sentences: Sequence[str]
    references: Sequence[str]
    gold: "GoldFile | None"


def check(runs: Sequence[Path], files: Files) -> None:
    """Check the runs and files of a page before the models are loaded, which takes seconds."""
    if len(runs) > 2:
        raise ValueError(f"--run is given {len(runs)} times, but a page shows one or two runs")
    check_runs(runs)
    options.require(files, "reference", "input")
    options.require(files, "gold", "reference")
    for option, path in vars(files).items():
        if path is not None and not path.exists():
            raise FileNotFoundError(2, f"no such file (--{option})", str(path))


def read(files: Files) -> Texts:
    """Read the files of a page. Raises ValueError for an empty file and for wrong gold links."""
    from bahdanau_jax.alignment import gold

    sentences, references, annotated = (
        _read(path) if path else [] for path in (files.input, files.reference, files.gold)
    )
    links = gold.read(annotated, str(files.gold)) if files.gold else None
    return Texts(sentences, references, links)


def _read(path: Path) -> list[str]:
    if not (read := lines.read_all(path)):
        raise ValueError(f"{path} is empty; expected one sentence a line")
    return read
