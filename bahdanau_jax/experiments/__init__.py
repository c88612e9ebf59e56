"""What is made of runs and corpora: reports of one, and studies of many."""

from bahdanau_jax.experiments import corpus, evaluation, publish, report

__all__ = ["corpus", "evaluation", "publish", "report"]
