"""bahdanau export --run DIR --output FOLDER"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from bahdanau_jax import run_folder
from bahdanau_jax.cli import options, page_texts, progress
from bahdanau_jax.cli.runs import load
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
    CPU, CUDA and TPU, and a model card with the measured scores. A page is one HTML file in which
    the model runs, as in bahdanau explore; it can show two runs.
    """

    # the folder of a trained model, DIR, or one of its checkpoints, DIR@STEP; default: the best
    # one; in a page, a second model is shown beside the first
    run: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction]
    output: Path  # the folder or file to write, which appears when complete
    format: str = ""  # its form; default: a page where --output ends in .html, else a folder
    license: str = ""  # of the model card, such as cc-by-4.0; default: apache-2.0 for builtin: data
    overwrite: bool = False  # replace an earlier export
    trust_code: bool = False  # import the module that the run names (module:attribute), if it does
    settings: Annotated[page_texts.Files, tyro.conf.arg(name="")] = page_texts.Files()

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau export --run runs/quickstart --output quickstart-model",
        "bahdanau export --run runs/a --output a --license cc-by-4.0 --overwrite True",
        "bahdanau export --run runs/quickstart --output page.html",
    )


def _check_folder(chosen: Export) -> None:
    from bahdanau_jax import export

    for option, path in vars(chosen.settings).items():
        if path is not None:
            raise ValueError(f"--{option} is for a page: leave it out for a folder")
    if len(chosen.run) > 1:
        raise ValueError(f"--run is given {len(chosen.run)} times, but a folder holds one model")
    (given,) = tuple(chosen.run)
    run, _ = run_folder.split(given)
    try:
        export.check(Config.load(run / run_folder.CONFIG), chosen.output, run, chosen.overwrite)
    except FileExistsError as error:
        raise ValueError(_exists(chosen)) from error


def _write_folder(chosen: Export, runs: Sequence["Run"]) -> None:
    from bahdanau_jax import export

    (run,) = runs
    sizes = export.write(run, chosen.output, chosen.license, chosen.overwrite)
    for name, size in sizes.items():
        print(f"{export.megabytes(size):>9}  {name}")
    used = ", ".join(map(str, run.chosen.used)) if run.chosen else "unknown"
    say(f"{chosen.output}: {export.megabytes(sum(sizes.values()))}, the checkpoint of {used}")


def _check_page(chosen: Export) -> None:
    if chosen.license:
        raise ValueError("--license is for a folder: leave it out for a page")
    if chosen.output.is_dir():
        raise ValueError(f"{chosen.output} is a folder: name a file, such as page.html")
    if not chosen.output.absolute().parent.is_dir():
        raise FileNotFoundError(2, "no such folder (--output)", str(chosen.output.parent))
    if chosen.output.exists() and not chosen.overwrite:
        raise ValueError(_exists(chosen))


def _exists(chosen: Export) -> str:
    return f"{chosen.output} exists: add --overwrite True to replace it"


def _write_page(chosen: Export, runs: Sequence["Run"]) -> None:
    from bahdanau_jax import explorer, export

    sentences, references, gold = page_texts.read(chosen.settings)
    first, *rest = runs
    other = rest[0] if rest else None
    explorer.write_page(
        first, chosen.output, sentences, references=references, gold=gold, other=other
    )
    print(f"{export.megabytes(chosen.output.stat().st_size):>9}  {chosen.output}")


@dataclass(frozen=True)
class Format:
    """A form of the exported model."""

    check: Callable[[Export], None]  # raises an error before the models are loaded
    write: Callable[[Export, Sequence["Run"]], None]


# Values of --format.
FORMATS: Mapping[str, Format] = MappingProxyType(
    {"folder": Format(_check_folder, _write_folder), "page": Format(_check_page, _write_page)}
)


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Export, arguments, "bahdanau export")
    by_name = "page" if chosen.output.suffix == ".html" else "folder"
    form = choose(FORMATS, chosen.format or by_name, "--format")
    page_texts.check(chosen.run, chosen.settings)
    form.check(chosen)
    with progress.reporter(progress.on_terminal()) as reporter:
        reporter.stage("loading the model")
        runs = load(chosen.run, chosen.trust_code)
        reporter.stage("writing the model")
        form.write(chosen, runs)
