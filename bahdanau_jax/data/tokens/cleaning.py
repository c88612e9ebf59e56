"""What is done to training text before it is encoded, and which pairs are left out, and why.

Nothing is ever truncated: a pair that does not fit is dropped whole, and counted.
"""

import html
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool, Int

from bahdanau_jax.config import DataConfig

UNICODE: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "none": lambda text: text,
        "NFC": lambda text: unicodedata.normalize("NFC", text),
        "NFKC": lambda text: unicodedata.normalize("NFKC", text),
    }
)


def clean(config: DataConfig, text: str) -> str:
    """The text of one sentence as its tokeniser gets it, also in translation.

    >>> clean(DataConfig(unescape=True), "R&amp;D")
    'R&D'
    """
    if config.unescape and "&" in text:
        text = html.unescape(text)
    return UNICODE[config.unicode](text)


Reason = Callable[[DataConfig, Int[np.ndarray, "N 2"]], Bool[np.ndarray, " N"]]


def _too_long(config: DataConfig, lengths: np.ndarray) -> np.ndarray:
    return (lengths.max(1) > config.max_tokens) & (config.max_tokens > 0)


def _uneven(config: DataConfig, lengths: np.ndarray) -> np.ndarray:
    return (lengths.max(1) > config.max_ratio * lengths.min(1)) & (config.max_ratio > 0)


# Why a pair is dropped, from the tokens of both sides before EOS; the first reason counts.
# A pair that was there before is found out last, by store.write.
REASONS: Mapping[str, Reason] = MappingProxyType(
    {
        "empty": lambda config, lengths: lengths.min(1) == 0,
        "too_long": _too_long,
        "uneven": _uneven,
    }
)
DUPLICATE = "duplicate"
