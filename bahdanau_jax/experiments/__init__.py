"""What is made of runs and corpora: reports of one, and studies of many."""

from bahdanau_jax.experiments import corpus, report

__all__ = ["corpus", "report"]
