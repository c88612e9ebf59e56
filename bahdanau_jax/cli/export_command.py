"""bahdanau export --run DIR --output FOLDER"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from bahdanau_jax import run_folder
from bahdanau_jax.cli import import_from_here, lines, options, progress
from bahdanau_jax.config import Config
from bahdanau_jax.names import choose
from bahdanau_jax.reporting import say

if TYPE_CHECKING:
    from bahdanau_jax.trained import Run


@dataclass(frozen=True)
class Export:
    """Write a trained model in a form that runs without this program.

    A folder translates with jax and numpy alone: python FOLDER/translate.py < source.txt. It has
    the weights of the best checkpoint, the vocabularies, the programs as jax.export artefacts for
    CPU, CUDA and TPU, and a model card with the measured scores.
    """

    run: Path  # the folder of a trained model
    output: Path  # the folder to write, which appears when complete
    format: str = "folder"  # the form of the exported model
    license: str = ""  # of the model card, such as cc-by-4.0; default: apache-2.0 for builtin: data
    overwrite: bool = False  # replace an earlier export
    input: Path | None = None  # sentences for a page, one a line
    trust_code: bool = False  # import the module that the run names (module:attribute), if it does

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau export --run runs/quickstart --output quickstart-model",
        "bahdanau export --run runs/a --output a --license cc-by-4.0 --overwrite True",
    )


def _check_folder(chosen: Export, config: Config) -> None:
    from bahdanau_jax import export

    if chosen.input is not None:
        raise ValueError("--input is for a page: leave it out with --format folder")
    export.check(config, chosen.output, chosen.run, chosen.overwrite)


def _write_folder(chosen: Export, run: "Run") -> None:
    from bahdanau_jax import export

    sizes = export.write(run, chosen.output, chosen.license, chosen.overwrite)
    for name, size in sizes.items():
        print(f"{export.megabytes(size):>9}  {name}")
    used = ", ".join(map(str, run.chosen.used)) if run.chosen else "unknown"
    say(f"{chosen.output}: {export.megabytes(sum(sizes.values()))}, the checkpoint of {used}")


def _check_page(chosen: Export, config: Config) -> None:
    if chosen.input is None:
        raise ValueError("--format page needs --input, a file of sentences for the page")
    if not chosen.input.exists():
        raise FileNotFoundError(2, "no such file (--input)", str(chosen.input))
    if chosen.output.is_dir():
        raise ValueError(f"{chosen.output} is a folder: name a file, such as page.html")


def _write_page(chosen: Export, run: "Run") -> None:
    explorer = importlib.import_module("bahdanau_jax.explorer")
    sentences = lines.read_all(chosen.input) if chosen.input else []
    explorer.write_page(run, chosen.output, sentences)
    say(f"written: {chosen.output}")


@dataclass(frozen=True)
class Format:
    """A form of the exported model."""

    check: Callable[[Export, Config], None]  # raises ValueError before the model is loaded
    write: Callable[[Export, "Run"], None]


# Values of --format.
FORMATS: Mapping[str, Format] = MappingProxyType({"folder": Format(_check_folder, _write_folder)})


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Export, arguments, "bahdanau export")
    form = choose(FORMATS, chosen.format, "--format")
    run_folder.require(chosen.run)
    if chosen.trust_code:
        import_from_here()
    form.check(chosen, Config.load(chosen.run / run_folder.CONFIG))
    with progress.reporter(progress.on_terminal()) as reporter:
        reporter.stage("loading the model")
        from bahdanau_jax import trained

        run = trained.load(chosen.run, trust_code=chosen.trust_code)
        reporter.stage("writing the model")
        form.write(chosen, run)
