"""What is made of runs and corpora: reports of one, and studies of many."""

from bahdanau_jax.experiments import alignments, corpus, report

__all__ = ["alignments", "corpus", "report"]
