"""bahdanau curves --runs DIR,DIR,... [--output FILE]"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bahdanau_jax.cli import options
from bahdanau_jax.reporting import say

USUAL = ("loss", "dev_loss", "dev_bleu")


@dataclass(frozen=True)
class Curves:
    """Print the scores of training runs side by side for each evaluation, and draw them.

    Runs may still be in training. A line has the newest value of each score at an evaluation.
    """

    runs: str  # the folders of runs, separated by commas
    output: Path | None = None  # a picture, .svg, .png or .pdf
    scores: str = ""  # fields of metrics.jsonl with commas; default: loss, dev_loss, dev_bleu

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau curves --runs runs/additive,runs/dot",
        "bahdanau curves --runs runs/additive,runs/dot --output curves.svg",
    )


def _folders(text: str) -> list[Path]:
    """The folders in `text`. Commas separate them, and may be in the name of one that exists."""
    pieces, found = text.split(","), []
    while pieces:
        joined = (n for n in range(len(pieces), 1, -1) if Path(",".join(pieces[:n])).is_dir())
        count = next(joined, 1)
        found.append(",".join(pieces[:count]))
        pieces = pieces[count:]
    return [Path(folder) for folder in found if folder]


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Curves, arguments, "bahdanau curves")
    from bahdanau_jax import figures
    from bahdanau_jax.report import learning_curves, publish

    runs = learning_curves.read(_folders(chosen.runs))
    usual = [score for score in USUAL if score in learning_curves.known(runs)]
    scores = [name.strip() for name in chosen.scores.split(",")] if chosen.scores else usual
    drawn = learning_curves.chosen(runs, scores)
    print("\n".join(publish.rows(learning_curves.table(runs, scores))))
    if chosen.output is not None:
        figures.save(figures.curves(drawn), chosen.output)
        say(f"written: {chosen.output}")
