"""The section on how a run was made, from the files of its folder."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from bahdanau_jax.report.document import NOTHING, Section, Table
from bahdanau_jax.reporting import duration
from bahdanau_jax.run_folder import DEV_SCORE
from bahdanau_jax.trained import Run
from bahdanau_jax.training import read_metrics, read_record

PACKAGES = ("bahdanau-jax", "jax", "python")  # versions that are shown; record.json has more
HASH = 12  # characters of a commit that are shown


def made(run: Run) -> Section:
    """The evaluated checkpoint, and its training from record.json and metrics.jsonl.

    Values that these files lack are left out. An ensemble has a table for each member.
    """
    tables, missing = [], []
    for member in run.members:
        name = member.folder.resolve().name
        rows = [*_checkpoint(member), *_progress(member), *_starts(read_record(member.folder))]
        if rows:
            tables.append(Table(("field", name if run.others else "value"), rows))
        else:
            missing.append(f"{name} has no record of it.")
    text = "From record.json and metrics.jsonl in the run folder, which contain more."
    return Section(
        "How this run was made", " ".join([text] * bool(tables) + missing), tuple(tables)
    )


def _checkpoint(run: Run) -> Iterator[tuple[str, str]]:
    if run.chosen and run.chosen.used:
        yield "checkpoint", f"of step {', '.join(f'{used.step:,}' for used in run.chosen.used)}"


def _progress(run: Run) -> Iterator[tuple[str, str]]:
    lines = read_metrics(run.folder)
    if lines:
        last = lines[-1]
        epochs = f", {last['epoch']:.2f} epochs" if last.get("epoch") else ""
        yield "updates", f"{last['step']:,} of {run.config.training.steps:,}{epochs}"
        if isinstance(last.get("seconds"), int | float):
            yield "time of training", duration(last["seconds"])
    best = [line for line in lines if isinstance(line.get(DEV_SCORE), int | float)]
    if best:
        top = max(best, key=lambda line: (line[DEV_SCORE], line["step"]))  # as checkpoints do
        metric = run.config.training.dev_metric
        value = abs(top[DEV_SCORE])  # the dev score of the loss is its negative
        yield "best dev score", f"{metric} {value:.4g}, at step {top['step']:,}"


def _starts(record: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The first start, and the times when the run was resumed."""
    if not record:
        return
    first = record[0]
    yield "command", _command(first.get("command"))
    yield "started", _time(first)
    for start in record[1:]:
        yield "resumed", f"{_time(start)}, from step {start.get('step', NOTHING)}"
    yield "seed", str(first.get("seed", NOTHING))
    yield "hardware", hardware(first)
    yield "platform", platform(first)
    versions = first.get("versions") or {}
    yield "versions", ", ".join(f"{name} {versions.get(name, NOTHING)}" for name in PACKAGES)
    if first.get("git"):
        yield "commit", commit(first)


def hardware(start: Mapping[str, Any]) -> str:
    """The devices of a start, and the machine, as much of it as the run may use.

    >>> machine = {"processor": "AMD EPYC", "cores": 1, "memory_gib": 23.5}
    >>> devices = {"count": 1, "kind": "cpu"}
    >>> hardware({"devices": devices, "machine": machine})
    '1 x cpu, AMD EPYC, 1 core, 23.5 GiB'
    """
    devices, machine = start.get("devices") or {}, start.get("machine") or {}
    parts = [f"{devices.get('count', NOTHING)} x {devices.get('kind', NOTHING)}"]
    if machine:
        cores = machine.get("cores")
        parts += [str(machine.get("processor")), f"{cores} core{'' if cores == 1 else 's'}"]
        parts += [f"{machine.get('memory_gib')} GiB"]
    if devices.get("processes", 1) > 1:
        parts.append(f"{devices['processes']} processes")
    return ", ".join(parts)


def platform(start: Mapping[str, Any]) -> str:
    """The operating system of a start, with its version."""
    return str(start.get("platform", NOTHING))


def commit(start: Mapping[str, Any]) -> str:
    """The commit of a start of a run, and whether the files differed from it."""
    code = start.get("git") or {}
    changed = ", with changes" if code.get("changed") else ""
    return f"{str(code.get('commit', 'unknown'))[:HASH]}{changed}"


def _command(words: Any) -> str:
    """The command line, with the program's name without its folder."""
    if not isinstance(words, list) or not words:
        return NOTHING
    program, *rest = map(str, words)
    return shlex.join([PurePath(program).name, *rest])


def _time(start: Mapping[str, Any]) -> str:
    """The time of a start in UTC.

    >>> _time({"time": "2025-03-01T12:30:59+00:00"})
    '2025-03-01 12:30 UTC'
    """
    date, _, clock = str(start.get("time", "")).partition("T")
    return f"{date} {clock[:5]} UTC" if clock else NOTHING
