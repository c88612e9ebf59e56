"""Evaluation of translations: scores, their significance, and what the model knows of them."""

from bahdanau_jax.evaluation import behaviour, calibration, quality, scores, significance
from bahdanau_jax.evaluation.by_length import EDGES, by_length
from bahdanau_jax.evaluation.calibration import ConfidenceBin
from bahdanau_jax.evaluation.tally import Tally, chrf_tally
from bahdanau_jax.evaluation.unk_effect import unknown_effect

__all__ = [
    "EDGES",
    "ConfidenceBin",
    "Tally",
    "behaviour",
    "by_length",
    "calibration",
    "chrf_tally",
    "quality",
    "scores",
    "significance",
    "unknown_effect",
]
