"""The reports on runs, test sets and corpora, and their HTML pages."""

from bahdanau_jax.report import (
    aligned_corpus,
    corpus_report,
    cost_report,
    learning_curves,
    publish,
    report,
    run_scores,
)
from bahdanau_jax.report.document import NOTHING, Picture, Section, Table, number, span
from bahdanau_jax.report.provenance import commit, hardware, made, platform
from bahdanau_jax.report.publish import as_json
from bahdanau_jax.report.report import TestPairs, evaluate_test_pairs
from bahdanau_jax.report.run_scores import DEFAULTS, Evaluated, Settings

__all__ = [
    "DEFAULTS",
    "Evaluated",
    "NOTHING",
    "Picture",
    "Section",
    "Settings",
    "Table",
    "TestPairs",
    "aligned_corpus",
    "as_json",
    "commit",
    "corpus_report",
    "cost_report",
    "evaluate_test_pairs",
    "hardware",
    "learning_curves",
    "made",
    "number",
    "platform",
    "publish",
    "report",
    "span",
    "run_scores",
]
