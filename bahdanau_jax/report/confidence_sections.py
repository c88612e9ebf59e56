"""The sections of a report on confidence: its calibration, and how it predicts quality."""

from collections.abc import Mapping
from typing import Any

from bahdanau_jax import figures
from bahdanau_jax.evaluation import calibration
from bahdanau_jax.report.document import Picture, Section, Table, number, span


def calibrated(part: Mapping[str, Any]) -> Section:
    """How often words are right that the model is sure of, of references and translations."""
    text = (
        "By teacher forcing, confidence is the probability of the likeliest next word, and "
        "accuracy is the share of these words that equal the reference's. In translations, it is "
        "the probability of each token, and the share of tokens in a longest common subsequence "
        "with the reference, where unknown words are all equal. ECE is the mean difference of "
        "confidence and accuracy over bins of confidence (arXiv 1706.04599, 1903.00802). The area "
        "under ROC is the probability that a right token has a larger confidence than a wrong one."
    )
    if part["left-out"]:
        text += f" Teacher forcing leaves out {part['left-out']:,} empty or very long sentences."
    columns = part, part["output"]
    rows = [
        (name, *(number(column[key], form) for column in columns))
        for name, key, form in (
            ("ECE, bins of equal width", "ECE", ".4f"),
            ("ECE, bins of equal mass", "ECE-equal-mass", ".4f"),
            ("area under ROC", "AUC", ".3f"),
            ("mean confidence", "confidence", ".1%"),
            ("accuracy", "accuracy", ".1%"),
        )
    ]
    rows += [
        ("perplexity of the references", number(part["perplexity"], ".2f"), ""),
        ("tokens, EOS counted", *(f"{column['words']:,}" for column in columns)),
    ]
    filled = {
        f"{name}, {binning.replace('-', ' ')}": [calibration.ConfidenceBin(**b) for b in bins]
        for name, column in zip(("teacher-forced", "translations"), columns, strict=True)
        for binning, bins in column["bins"].items()
        if column["words"]
    }
    caption = (
        "Reliability: above the dotted line, accuracy is higher than confidence. The bars below "
        f"are the words of the first line, {next(iter(filled), '')}."
    )
    pictures = (Picture("reliability", figures.reliability(filled), caption),) if filled else ()
    header = ("", "teacher-forced", "translations")
    return Section("Calibration", text, (Table(header, rows),), pictures)


def correlated(part: Mapping[str, Any]) -> Section:
    """Which number without a reference predicts the chrF of a sentence."""
    rows = [
        (
            name,
            number(each["spearman"], "+.2f"),
            span(each["interval"], "+.2f"),
            number(each["pearson"], "+.2f"),
        )
        for name, each in part["measures"].items()
    ]
    text = (
        "Correlation with the chrF of each sentence, of numbers that need no reference: the "
        "score of the search, the mean of the tokens' log p (the logarithm of `confidence` in "
        "JSON), their sum, the mean of their probabilities, the least of them, minus the entropy "
        "of the attention weights, and minus the number of tokens. The interval (95%) is a "
        f"bootstrap over {part['sentences']:,} sentences."
    )
    header = ("measure", "Spearman", "95%", "Pearson")
    return Section("What predicts quality", text, (Table(header, rows),))
