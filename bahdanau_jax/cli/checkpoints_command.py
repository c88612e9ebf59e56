"""bahdanau checkpoints --run DIR [--verify] [--prune N] [--export F] [--import F]"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from bahdanau_jax import run_folder
from bahdanau_jax.cli import import_from_here, options
from bahdanau_jax.reporting import say

if TYPE_CHECKING:
    from bahdanau_jax.checkpoints import Entry

log = logging.getLogger(__name__)

SAFETENSORS = ".safetensors"


@dataclass(frozen=True)
class Checkpoints:
    """List the checkpoints of a run: step, dev score, size, date, and state.

    By default only their metadata are checked. --export writes the weights of the best checkpoint;
    --import makes a new run folder from a file of weights, for translation and, from a safetensors
    file, training.
    """

    run: Path  # the folder of a run; with --import, the folder to create
    verify: bool = False  # read every array and compare it with its digest
    prune: int = 0  # newest intact checkpoints to keep beside the best one; 0: remove none
    export: Path | None = None  # a .safetensors file to write
    import_: Annotated[Path | None, tyro.conf.arg(name="import")] = None  # .safetensors or .npz
    trust_code: bool = False  # import the module that the run or file names, if it does
    words: str = ""  # SOURCE,TARGET: two files with the words of a GroundHog .npz

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau checkpoints --run runs/quickstart --verify",
        "bahdanau checkpoints --run runs/quickstart --export quickstart.safetensors",
        "bahdanau checkpoints --run runs/copy --import quickstart.safetensors",
    )


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Checkpoints, arguments, "bahdanau checkpoints")
    if chosen.import_ is not None and (chosen.verify or chosen.prune or chosen.export):
        raise ValueError("--import makes a new run folder: leave out the other options")
    options.require(chosen, "words", "import_")
    options.require(chosen, "trust_code", "export", "import_")
    if chosen.export is not None and chosen.export.suffix != SAFETENSORS:
        raise ValueError(f"{chosen.export} should end in {SAFETENSORS}, the form of the file")
    if chosen.prune < 0:
        raise ValueError(f"--prune is {chosen.prune}, but should be at least 0")
    if chosen.verify and chosen.prune:
        raise ValueError("--prune verifies all checkpoints first: leave out --verify")
    if chosen.trust_code:
        import_from_here()
    if chosen.import_ is not None:
        _import(chosen, chosen.import_)
    else:
        _list(chosen)


def _import(chosen: Checkpoints, path: Path) -> None:
    names = chosen.words.split(",") if chosen.words else None
    if names is not None and len(names) != 2:
        raise ValueError(f"--words is {chosen.words!r}, but should be two files: SOURCE,TARGET")
    from bahdanau_jax import exchange

    words = (Path(names[0]), Path(names[1])) if names else None
    count = exchange.import_weights(path, chosen.run, words, chosen.trust_code)
    say(f"{chosen.run} holds {count:,} weights of {path}")


def _list(chosen: Checkpoints) -> None:
    from bahdanau_jax import checkpoints

    folder = chosen.run / run_folder.CHECKPOINTS
    if not folder.is_dir():
        raise FileNotFoundError(f"{chosen.run} holds no checkpoints: train a model there first")

    if chosen.prune:
        with run_folder.lock(chosen.run):
            removed, entries = checkpoints.prune(folder, chosen.prune)
        say(f"removed: {', '.join(map(str, removed)) or 'none'}")
    else:
        entries = checkpoints.inventory(folder, chosen.verify)
    print("\n".join([HEAD, *map(row, entries)]))
    damaged = [entry for entry in entries if entry.damaged]
    refused = damaged and (chosen.verify or chosen.prune)
    if chosen.export is not None:
        from bahdanau_jax import exchange

        count = exchange.export_weights(chosen.run, chosen.export, chosen.trust_code)
        say(f"{chosen.export} holds {count:,} weights")
    elif not refused:
        for line in checkpoints.better(chosen.run, entries).warnings(folder):
            log.warning("%s", line)
    if refused:
        raise ValueError(
            f"{len(damaged)} of {len(entries)} checkpoints cannot be used: "
            + ", ".join(str(entry.folder) for entry in damaged)
            + "; training and translation skip them"
        )


HEAD = f"{'step':>9}  {'score':>12}  {'MB':>9}  {'saved':<19}  state"


def row(entry: "Entry") -> str:
    """A line of the table, in which "best" marks the best checkpoint."""
    score = "-" if entry.score is None else f"{entry.score:.6g}"
    mark = ", best" if entry.best else ""
    return (
        f"{entry.step:>9}  {score:>12}  {entry.size / 1e6:>9.2f}  {entry.saved}  "
        f"{entry.state}{mark}"
    )
