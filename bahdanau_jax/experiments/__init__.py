"""Experiments on trained models: what each word contributes, and what a change of a part does."""

from bahdanau_jax.experiments.inspection import (
    HiddenStates,
    as_batch,
    example_gradients,
    example_losses,
    hidden_states,
    without,
)
from bahdanau_jax.experiments.intervened import score, translate
from bahdanau_jax.experiments.masking import MaskingStudy, masking_study
from bahdanau_jax.model import attribution, interventions

__all__ = [
    "HiddenStates",
    "MaskingStudy",
    "as_batch",
    "attribution",
    "example_gradients",
    "example_losses",
    "hidden_states",
    "interventions",
    "masking_study",
    "score",
    "translate",
    "without",
]
