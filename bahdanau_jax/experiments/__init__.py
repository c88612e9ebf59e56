"""What is made of trained runs: reports of one, and studies of many."""

from bahdanau_jax.experiments import report

__all__ = ["report"]
