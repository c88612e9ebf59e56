"""Experiments: changes of a part of a trained model, sweeps over settings, and suites."""

from bahdanau_jax.experiments import statistics
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
from bahdanau_jax.experiments.results import Results
from bahdanau_jax.experiments.run_sweep import sweep
from bahdanau_jax.experiments.suites import SUITES, Request, reproduce
from bahdanau_jax.experiments.sweep_cells import Cells, product, seed_range
from bahdanau_jax.experiments.sweep_definition import with_dtypes
from bahdanau_jax.experiments.sweep_report import write as write_report
from bahdanau_jax.model import attribution, interventions

__all__ = [
    "SUITES",
    "Cells",
    "HiddenStates",
    "MaskingStudy",
    "Request",
    "Results",
    "as_batch",
    "attribution",
    "example_gradients",
    "example_losses",
    "hidden_states",
    "interventions",
    "masking_study",
    "product",
    "reproduce",
    "score",
    "seed_range",
    "statistics",
    "sweep",
    "translate",
    "with_dtypes",
    "without",
    "write_report",
]
