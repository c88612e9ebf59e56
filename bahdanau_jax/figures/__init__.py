"""Figures, drawn by matplotlib: where a model looked, how it fares and how it learned."""

from bahdanau_jax.figures.charts import bleu_by_length, curves, lengths, reliability
from bahdanau_jax.figures.drawing import Drawing, MissingFont, save
from bahdanau_jax.figures.translation_figures import alignment, steps

__all__ = [
    "Drawing",
    "MissingFont",
    "alignment",
    "bleu_by_length",
    "curves",
    "lengths",
    "reliability",
    "save",
    "steps",
]
