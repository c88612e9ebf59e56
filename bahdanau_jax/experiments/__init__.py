"""Experiments: sweeps over settings and seeds, and the suites made of them."""

from bahdanau_jax.experiments.cells import Cells, product
from bahdanau_jax.experiments.report import write as write_report
from bahdanau_jax.experiments.results import Results
from bahdanau_jax.experiments.suites import SUITES, Request, reproduce
from bahdanau_jax.experiments.sweep import sweep

__all__ = ["SUITES", "Cells", "Request", "Results", "product", "reproduce", "sweep", "write_report"]
