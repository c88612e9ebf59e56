"""Figures by matplotlib: attention weights, scores and training curves."""

from bahdanau_jax.figures.charts import bleu_by_length, curves, lengths, means, reliability
from bahdanau_jax.figures.drawing import PALETTE, Drawing, MissingFont, save
from bahdanau_jax.figures.translation_figures import alignment, alignments, steps

__all__ = [
    "PALETTE",
    "Drawing",
    "MissingFont",
    "alignment",
    "alignments",
    "bleu_by_length",
    "curves",
    "lengths",
    "means",
    "reliability",
    "save",
    "steps",
]
