"""The reports on runs, test sets and corpora, and their HTML pages."""

from bahdanau_jax.report import aligned_corpus, corpus_report, curves, publish, report, test_scores

__all__ = [
    "aligned_corpus",
    "corpus_report",
    "curves",
    "publish",
    "report",
    "test_scores",
]
