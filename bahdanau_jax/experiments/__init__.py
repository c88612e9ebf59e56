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
from bahdanau_jax.model.attribution import gradient_times_input, integrated_gradients
from bahdanau_jax.model.interventions import at, force, harden, mask, padded, replace

__all__ = [
    "HiddenStates",
    "MaskingStudy",
    "as_batch",
    "at",
    "example_gradients",
    "example_losses",
    "force",
    "gradient_times_input",
    "harden",
    "hidden_states",
    "integrated_gradients",
    "mask",
    "masking_study",
    "padded",
    "replace",
    "score",
    "translate",
    "without",
]
