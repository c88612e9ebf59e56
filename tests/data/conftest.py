"""A stand-in for the built-in grammar, with only the features that these tests need."""

import itertools
import sys
import types
from pathlib import Path
from typing import NamedTuple

import pytest

import bahdanau_jax.data.sources


class AlignedPair(NamedTuple):
    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset
    possible: frozenset


def generate(split, seed=0, min_words=3, max_words=60, linked=True):
    """Sentences of numbers, each twice, so that tests can see repetition."""
    offset = {"train": 0, "dev": 10_000, "test": 20_000}[split]
    for n in itertools.count():
        length = min_words + n % (max_words - min_words + 1)
        words = (str(offset + seed + n),) * length
        links = frozenset((i, i) for i in range(length) if linked)
        for _ in range(2):
            yield AlignedPair(words, tuple(f"le{word}" for word in words), links, links)


def text(tokens, language):
    return f"{language}: " + " ".join(tokens)


@pytest.fixture(autouse=True)
def grammar(monkeypatch):
    module = types.ModuleType("bahdanau_jax.data.sources.grammar")
    module.AlignedPair, module.generate, module.text = AlignedPair, generate, text
    module.__file__ = str(Path(__file__))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(bahdanau_jax.data.sources, "grammar", module, raising=False)
    return module
