"""How a run was made, as its folder says: the same report comes out whenever it is written."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from bahdanau_jax.report.document import NOTHING, Section, Table
from bahdanau_jax.trained import Run
from bahdanau_jax.training import read_metrics, read_record

PACKAGES = ("bahdanau-jax", "jax", "python")  # whose versions are shown; record.json has more
HASH = 12  # characters of a commit


def made(run: Run, scores: Mapping[str, Any]) -> Section:
    """The checkpoint that was evaluated, and from record.json and metrics.jsonl how it was trained.

    What they do not say is left out.
    """
    rows = [*_checkpoint(scores), *_progress(run), *_starts(read_record(run.folder))]
    text = "From record.json and metrics.jsonl in the run folder, which say more."
    if not rows:
        return Section("How this run was made", f"{run.folder.resolve().name} has no record of it.")
    return Section("How this run was made", text, (Table(("what", "value"), rows),))


def _checkpoint(scores: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    chosen = scores.get("checkpoint") or {}
    if steps := chosen.get("steps"):
        yield "checkpoint", f"of step {', '.join(f'{step:,}' for step in steps)}"


def _progress(run: Run) -> Iterator[tuple[str, str]]:
    lines = read_metrics(run.folder)
    if lines:
        last = lines[-1]
        epochs = f", {last['epoch']:.2f} epochs" if last.get("epoch") else ""
        yield "updates", f"{last['step']:,} of {run.config.training.steps:,}{epochs}"
        if isinstance(last.get("seconds"), int | float):
            yield "time of training", duration(last["seconds"])
    best = [line for line in lines if isinstance(line.get("dev_score"), int | float)]
    if best:
        top = max(best, key=lambda line: line["dev_score"])
        metric = run.config.training.dev_metric
        value = abs(top["dev_score"])  # the loss is kept with its sign turned
        yield "best dev score", f"{metric} {value:.4g}, at step {top['step']:,}"


def _starts(record: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Of the first start, and how often the run went on."""
    if not record:
        return
    first = record[0]
    yield "command", _command(first.get("command"))
    yield "started", _time(first)
    for one in record[1:]:
        yield "went on", f"{_time(one)}, from step {one.get('step', NOTHING)}"
    yield "seed", str(first.get("seed", NOTHING))
    found = first.get("devices") or {}
    kind, count = found.get("kind", NOTHING), found.get("count", NOTHING)
    yield "devices", f"{count} x {kind}, {found.get('processes', 1)} process(es)"
    yield "platform", str(first.get("platform", NOTHING))
    versions = first.get("versions") or {}
    yield "versions", ", ".join(f"{name} {versions.get(name, NOTHING)}" for name in PACKAGES)
    if code := first.get("git"):
        changed = ", with changes" if code.get("changed") else ""
        yield "commit", f"{str(code.get('commit'))[:HASH]}{changed}"


def _command(words: Any) -> str:
    """As it was typed: the program's name without its folder."""
    if not isinstance(words, list) or not words:
        return NOTHING
    program, *rest = map(str, words)
    return shlex.join([PurePath(program).name, *rest])


def _time(start: Mapping[str, Any]) -> str:
    """
    >>> _time({"time": "2025-03-01T12:30:59+00:00"})
    '2025-03-01 12:30 UTC'
    """
    date, _, clock = str(start.get("time", "")).partition("T")
    return f"{date} {clock[:5]} UTC" if clock else NOTHING


def duration(seconds: float) -> str:
    """
    >>> duration(158.6), duration(9000)
    ('2 min 39 s', '2 h 30 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
