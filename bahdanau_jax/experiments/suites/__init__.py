"""Suites: the experiments of the paper and of others, each run by one command."""

from collections.abc import Mapping
from types import MappingProxyType

from bahdanau_jax.experiments.suites import ablations, lengths, notebook, paper, score_functions
from bahdanau_jax.experiments.suites.suite import Request, Suite, reproduce

# Name for `bahdanau reproduce` -> the suite.
SUITES: Mapping[str, Suite] = MappingProxyType(
    {
        "paper": paper.SUITE,
        "lengths": lengths.SUITE,
        "ablations": ablations.SUITE,
        "scores": score_functions.SUITE,
        "notebook": notebook.SUITE,
    }
)

__all__ = ["SUITES", "Request", "reproduce"]
