"""Cleaning of text before tokenisation, and the reasons for which training pairs are dropped.

Sentences are never truncated: a pair that does not fit is dropped whole, and counted.
"""

import html
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType

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


Reason = Callable[[DataConfig, Int[np.ndarray, "N 2"]], Bool[np.ndarray, " N"]]


def _too_long(config: DataConfig, lengths: np.ndarray) -> np.ndarray:
    return (lengths.max(1) > config.max_tokens) & (config.max_tokens > 0)


def _uneven(config: DataConfig, lengths: np.ndarray) -> np.ndarray:
    return (lengths.max(1) > config.max_ratio * lengths.min(1)) & (config.max_ratio > 0)


# Reason for dropping a pair -> condition on the numbers of tokens of both sides, without EOS. The
# first reason counts. DUPLICATE is the last one, and store.write finds it.
REASONS: Mapping[str, Reason] = MappingProxyType(
    {
        "empty": lambda config, lengths: lengths.min(1) == 0,
        "too_long": _too_long,
        "uneven": _uneven,
    }
)
DUPLICATE = "duplicate"
