"""The report on a run or a corpus, and its page."""

from bahdanau_jax.report import aligned_corpus, corpus_report, curves, publish, report, test_scores

__all__ = [
    "aligned_corpus",
    "corpus_report",
    "curves",
    "publish",
    "report",
    "test_scores",
]
