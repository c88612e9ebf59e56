"""How the models of the suite `paper` learned, beside the paper's, and what differs from it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bahdanau_jax import data, training
from bahdanau_jax.config import Config, DataConfig
from bahdanau_jax.configurations import configuration
from bahdanau_jax.experiments.suites.paper_printed import PRINTED
from bahdanau_jax.experiments.suites.suite import Outcome, folder
from bahdanau_jax.experiments.sweep_report import abbreviated, flat
from bahdanau_jax.report import NOTHING, Section, Table, number
from bahdanau_jax.reporting import duration

RECIPE = "rnnsearch50"  # the shipped configuration with the paper's recipe
SELECTION = "The authors selected their training text by domain; that selection is not reproduced."
# Fields that are described in words, or that change no result.
NOT_COMPARED = (
    *("data.train", "data.dev", "data.test", "data.root", "data.limit_words", "data.max_tokens"),
    *("data.processes", "data.shapes", "model.gradients"),
)
DEV, TEST = "newstest2012 and newstest2013", "newstest2014"


def learning(outcome: Outcome) -> Section:
    """The updates, epochs, hours and NLL of each model, and those of the paper's Table 2."""
    ours, theirs = [], []
    windows = set()
    for name, printed in PRINTED.items():
        cell = folder(name)
        if not outcome.results.scores.get(cell):
            continue
        windows.add(outcome.cells[cell].training.log_every)
        lines = training.read_metrics(outcome.folder(cell))
        words = words_of_sentences(outcome.cells[cell].data, outcome.folder(cell))
        runs = outcome.results.scores[cell]
        scored = runs[min(runs)].get("checkpoint") or {}
        ours.append((name, *_learned(lines, scored.get("steps", ()), *words)))
        if row := printed.learning:
            counts = f"{row.updates:,}", f"{row.epochs}", f"{row.hours} h", row.device
            theirs.append((name, *counts, f"{row.train_nll}", f"{row.dev_nll}"))
    updates = " or ".join(map(str, sorted(windows)))
    text = (
        "NLL is the negative log-likelihood in nats. That of a sentence is ours of a word times "
        "the mean number of target words, with EOS. Our train NLL is that of the last logged "
        f"window (at most {updates} updates), with the dropout of training; our dev NLL is the "
        "smallest of the evaluations. The scores of the report are those of the checkpoint that "
        "the dev text chose, after the scored update. The values here are those of each model's "
        "first seed. The sentences are not the paper's."
    )
    of_sentences = ("train NLL of a sentence", "dev NLL of a sentence")
    of_words = ("train NLL of a word", "dev NLL of a word")
    header = ("here", "updates", "scored update", "epochs", "time", *of_words, *of_sentences)
    printed_header = ("paper", "updates", "epochs", "time", "device", *of_sentences)
    return Section("Learning", text, (Table(header, ours), Table(printed_header, theirs)))


def words_of_sentences(config: DataConfig, folder: Path) -> tuple[float, float]:
    """The mean number of target words, with EOS, of the training and of the dev pairs of a run."""
    prepared = data.prepare(config, folder, trained=True)
    counts, encode = prepared.train.statistics, prepared.codecs[1].encode
    lengths = [len(encode(pair.target)) for pair in prepared.dev]
    trained = counts["kept"] * counts["encodings"]
    return counts["tokens"]["target"] / trained + 1, sum(lengths) / len(lengths)


def _learned(
    lines: Sequence[Mapping[str, Any]],
    scored: Sequence[int],
    train_words: float,
    dev_words: float,
) -> tuple[str, ...]:
    if not lines:  # somebody has removed the run's metrics
        return (NOTHING,) * 8
    last, logged = lines[-1], [line for line in lines if "nll" in line]
    dev = [line["dev_loss"] for line in lines if line.get("dev_loss") is not None]
    of_train, of_dev = logged[-1]["nll"] if logged else None, min(dev, default=None)
    return (
        f"{last['step']:,}",
        ", ".join(f"{step:,}" for step in scored) or NOTHING,
        number(last.get("epoch"), ".2f"),
        duration(last["seconds"]),
        number(of_train, ".3f"),
        number(of_dev, ".3f"),
        number(None if of_train is None else of_train * train_words),
        number(None if of_dev is None else of_dev * dev_words),
    )


def differences(outcome: Outcome, done: Sequence[str]) -> Section:
    """What differs from the paper: the text, and the settings of the last model that attends."""
    attending = [cell for cell in done if outcome.cells[cell].model.attention != "none"]
    cell = "RNNsearch-50" if "RNNsearch-50" in attending else (attending or list(done))[-1]
    config = outcome.cells[cell]
    theirs = "348 million words of WMT14, selected by domain"
    rows = [(f"training text of {name}", theirs, _text(outcome, name)) for name in done]
    rows.append(("dev text, which chose the checkpoints", DEV, abbreviated(config.data.dev)))
    scores = next(iter(outcome.results.scores[cell].values()))
    addresses = [each["pairs"] for each in scores.get("tests", {}).values() if "pairs" in each]
    rows += [("test text", TEST, abbreviated(address)) for address in addresses]
    rows += differing(config)
    text = (
        f"The settings are those of {cell} and of the configuration {RECIPE}, which has the "
        "answers of the authors' program where the paper is silent or where both differ. The "
        "settings in which our models differ from each other are under Cells. Updates and hours "
        "are under Learning."
    )
    return Section("What differs from the paper", text, (Table(("field", "paper", "here"), rows),))


def differing(config: Config) -> list[tuple[str, str, str]]:
    """The settings in which a model differs from the paper's: field, the paper's value, ours."""
    ours, theirs = (
        dict(flat(json.loads(each.to_json()))) for each in (config, configuration(RECIPE))
    )
    return [
        (field, str(value), str(ours[field]))
        for field, value in theirs.items()
        if ours[field] != value and field not in NOT_COMPARED and not field.startswith("training.")
    ]


def _text(outcome: Outcome, cell: str) -> str:
    """The training text of a cell with its numbers of pairs and words."""
    config, folder = outcome.cells[cell].data, outcome.folder(cell)
    counts = data.prepare(config, folder, trained=True).train.statistics
    words = counts["words"]
    return (
        f"{abbreviated(config.train)}: {counts['kept']:,} pairs of at most {config.max_tokens} "
        f"words, {words['source']:,} source and {words['target']:,} target words"
    )
