"""bahdanau evaluate --run DIR --source F --reference F"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bahdanau_jax.cli import lines, options


@dataclass(frozen=True)
class Evaluate:
    """Translate a file and score it against its reference.

    Scores are printed as 'BLEU 93.1' on stderr and, with everything else known of them, as one
    JSON object on stdout.
    """

    run: Path  # the folder of a trained model
    source: Path  # text to translate, one sentence a line, also .gz or .xz
    reference: Path  # its translation, line by line
    output: Path | None = None  # a folder for the translations and figures


# Decimals of the scores that run from 0 to 1; the others have one.
DECIMALS: Mapping[str, int] = MappingProxyType(
    {"AER": 2, "PSA": 3, "LCSR": 3, "GeoMean": 3, "accuracy": 3, "exact": 3, "loss": 3}
)


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Evaluate, arguments, "evaluate")
    sources, references = lines.read_all(chosen.source), lines.read_all(chosen.reference)
    if len(sources) != len(references):
        raise ValueError(
            f"{chosen.source} has {len(sources)} lines, but {chosen.reference} has"
            f" {len(references)}; line i of one should translate line i of the other"
        )
    if not sources:
        raise ValueError(f"{chosen.source} is empty; expected one sentence a line")
    from bahdanau_jax import run

    scores = run.load(chosen.run).evaluate(sources, references, chosen.output)
    for name, value in scores.items():
        if isinstance(value, float | int) and not isinstance(value, bool):
            print(readable(name, value), file=sys.stderr)
    print(json.dumps(finite(scores), indent=2, ensure_ascii=False))


def readable(name: str, value: float) -> str:
    """
    >>> readable("BLEU", 93.0741)
    'BLEU 93.1'
    """
    return f"{name} {value}" if type(value) is int else f"{name} {value:.{DECIMALS.get(name, 1)}f}"


def finite(scores: Mapping[str, object]) -> dict[str, object]:
    """JSON has no NaN or infinity: null stands for a score that does not exist."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in scores.items()
    }
