"""What is made of runs and corpora: reports of one, and studies of many."""

from bahdanau_jax.experiments import alignments, corpus, curves, evaluation, publish, report

__all__ = [
    "alignments",
    "corpus",
    "curves",
    "evaluation",
    "publish",
    "report",
]
