"""The sentences of the explorer's page: options that `explore` and `export --format page` share."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bahdanau_jax import run_folder
from bahdanau_jax.cli import lines

if TYPE_CHECKING:
    from bahdanau_jax.alignment import GoldFile

OPTIONS = ("input", "reference", "gold")
NEEDED = (("reference", "input"), ("gold", "reference"))  # an option, and the one that it needs


class Texts(NamedTuple):
    """Sentences, their translations, and gold links between both; each may be empty."""

    sentences: Sequence[str]
    references: Sequence[str]
    gold: "GoldFile | None"


def check(chosen: Any) -> None:
    """Check the runs and files of a page before the models are loaded, which takes seconds."""
    if not chosen.run:
        raise ValueError("missing: --run")
    if len(chosen.run) > 2:
        raise ValueError(
            f"--run is given {len(chosen.run)} times, but a page shows one or two runs"
        )
    for folder in chosen.run:
        run_folder.require(folder)
    for option, needed in NEEDED:
        if getattr(chosen, option) is not None and getattr(chosen, needed) is None:
            raise ValueError(f"--{option} needs --{needed}, which is missing")
    for option in OPTIONS:
        path = getattr(chosen, option)
        if path is not None and not path.exists():
            raise FileNotFoundError(2, f"no such file (--{option})", str(path))


def read(input: Path | None, reference: Path | None, gold: Path | None) -> Texts:
    """Read the files of a page. Raises ValueError for gold links that cannot be parsed."""
    from bahdanau_jax.alignment import gold as gold_links

    sentences, references = (lines.read_all(path) if path else [] for path in (input, reference))
    links = gold_links.read(lines.read_all(gold), str(gold)) if gold else None
    return Texts(sentences, references, links)
