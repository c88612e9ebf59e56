"""Cleaning of text before tokenisation, and the reasons for which training pairs are dropped.

Sentences are never truncated: a pair that does not fit is dropped whole, and counted.
"""

import html
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from bahdanau_jax.config import DataConfig

# Value of `data.unicode` -> the function that normalises a text.
UNICODE: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "none": lambda text: text,
        "NFC": lambda text: unicodedata.normalize("NFC", text),
        "NFKC": lambda text: unicodedata.normalize("NFKC", text),
    }
)


def clean(config: DataConfig, text: str) -> str:
    """Clean a sentence for its tokeniser, in training and in translation.

    >>> clean(DataConfig(unescape=True), "R&amp;D")
    'R&D'
    """
    if config.unescape and "&" in text:
        text = html.unescape(text)
    return UNICODE[config.unicode](text)


class DropReason(NamedTuple):
    """Why a training pair is dropped."""

    # condition on the numbers of tokens of both sides, without EOS
    holds: Callable[[DataConfig, Int[np.ndarray, "N 2"]], Bool[np.ndarray, " N"]]
    words: str  # after the number of such pairs
    limit: str = ""  # the field of DataConfig that the pairs exceed, if it is one


def _too_long(config: DataConfig, lengths: np.ndarray) -> np.ndarray:
    return (lengths.max(1) > config.max_tokens) & (config.max_tokens > 0)


def _uneven(config: DataConfig, lengths: np.ndarray) -> np.ndarray:
    return (lengths.max(1) > config.max_ratio * lengths.min(1)) & (config.max_ratio > 0)


DUPLICATE = "duplicate"  # which store.write finds, by the text of all pairs before

# Name of a reason -> the reason. The first one that holds counts.
DROP_REASONS: Mapping[str, DropReason] = MappingProxyType(
    {
        "empty": DropReason(lambda config, lengths: lengths.min(1) == 0, "with an empty side"),
        "too_long": DropReason(_too_long, "above data.max_tokens", "max_tokens"),
        "uneven": DropReason(_uneven, "above data.max_ratio", "max_ratio"),
        DUPLICATE: DropReason(lambda config, lengths: np.zeros(len(lengths), bool), "duplicates"),
    }
)
