"""The numbers that the paper prints: its Table 1, and Table 2 of its appendix B."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

LONGER = "RNNsearch-50, longer"  # the row with a star


class Learning(NamedTuple):
    """A row of Table 2: how a model learned."""

    updates: int
    epochs: float
    hours: int
    device: str
    train_nll: float  # nats of a sentence, on average
    dev_nll: float


class Printed(NamedTuple):
    """A row of Table 1, with BLEU on newstest2014."""

    bleu: float
    known: float  # BLEU of sentences without unknown words
    learning: Learning | None = None


PRINTED: Mapping[str, Printed] = MappingProxyType(
    {
        "RNNencdec-30": Printed(
            13.93, 24.19, Learning(846_000, 6.4, 109, "TITAN BLACK", 28.1, 53.0)
        ),
        "RNNsearch-30": Printed(
            21.50, 31.44, Learning(471_000, 3.6, 113, "TITAN BLACK", 26.7, 47.2)
        ),
        "RNNencdec-50": Printed(
            17.82, 26.71, Learning(600_000, 4.5, 108, "Quadro K-6000", 44.0, 43.6)
        ),
        "RNNsearch-50": Printed(
            26.75, 34.16, Learning(288_000, 2.2, 111, "Quadro K-6000", 40.7, 38.1)
        ),
        LONGER: Printed(28.45, 36.15, Learning(667_000, 5.0, 252, "Quadro K-6000", 36.7, 35.2)),
        "Moses": Printed(33.30, 35.63),
    }
)
