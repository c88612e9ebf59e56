"""The costliest operations of a trace, read without TensorBoard.

A trace has planes, such as a GPU, and each plane has lines, such as a stream of kernels. Kernels
carry the name of their operation in the compiled program.
"""

import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax

OPERATIONS, KINDS = 30, 15  # rows of the tables
# Operations that run others: the time of those would be counted twice.
CONTAINERS = re.compile(r"(while|call|cond|conditional|command_buffer)([._]?\d+)*$")
RECORDED = re.compile(r"command_buffer([._]?\d+)*$")  # a CUDA graph of kernels
NUMBER = re.compile(r"([._]\d+)+$")


class Event(NamedTuple):
    """An operation that ran on the device. Times are nanoseconds."""

    operation: str  # its name in the compiled program, or the kernel's where there is none
    kernel: str
    start: float
    duration: float


def read(
    folder: Path, updates: int, kinds: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """The times of operations in an update, in milliseconds, from the traces in a folder.

    `kinds` has the kinds of some operations; that of the others is their name without its number.
    `busy_share` is the share of the time in which at least one operation runs on the device. Raises
    ValueError where a trace has no operation.
    """
    events = [event for file in sorted(folder.rglob("*.xplane.pb")) for event in _events(file)]
    return table(events, updates, kinds)


def keep_trace(folder: Path, file: Path) -> None:
    """Move the trace for Perfetto to `file`, if there is one, and delete the folder."""
    for found in folder.rglob("*.trace.json.gz"):
        shutil.move(found, file)
    shutil.rmtree(folder)


def table(
    events: Sequence[Event], updates: int, kinds: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """The totals of `read` for events of that many updates."""
    if not events:
        raise ValueError("the trace has no operation of a device")
    start = min(event.start for event in events)
    span = max(event.start + event.duration for event in events) - start
    busy = sum(end - begin for begin, end in _union(events))
    return {
        "milliseconds": round(span / updates / 1e6, 4),
        "busy_share": round(busy / span, 4),
        "kernels": round(len(events) / updates, 1),
        "kinds": _rows(
            ((kinds.get(e.operation) or _kind(e.operation), "", e) for e in events), updates, KINDS
        ),
        "operations": _rows(((e.operation, e.kernel, e) for e in events), updates, OPERATIONS),
    }


def _rows(named: Iterable[tuple[str, str, Event]], updates: int, most: int) -> list[dict[str, Any]]:
    """Totals by name and kernel, the costliest first. Shares are of the sum of all events."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name, kernel, event in named:
        times[name, kernel].append(event.duration)
    whole = sum(map(sum, times.values())) or 1.0
    costliest = sorted(times.items(), key=lambda item: -sum(item[1]))[:most]
    return [
        {
            "name": name,
            **({"kernel": kernel} if kernel and kernel != name else {}),
            "count": round(len(each) / updates, 2),
            "milliseconds": round(sum(each) / updates / 1e6, 4),
            "share": round(sum(each) / whole, 4),
        }
        for (name, kernel), each in costliest
    ]


def _kind(operation: str) -> str:
    """The name without its numbers: operations of one kind differ in them alone."""
    return NUMBER.sub("", operation)


def operation(named: str, kernel: str) -> str:
    """The operation of a kernel: its own name where it is one of a CUDA graph."""
    return kernel if RECORDED.match(named) else named


def _union(events: Iterable[Event]) -> Iterator[tuple[float, float]]:
    """The intervals in which at least one event runs."""
    begin = end = None
    for event in sorted(events, key=lambda event: event.start):
        if begin is None or end is None or event.start > end:
            if begin is not None and end is not None:
                yield begin, end
            begin, end = event.start, event.start
        end = max(end, event.start + event.duration)
    if begin is not None and end is not None:
        yield begin, end


def _events(file: Path) -> Iterator[Event]:
    planes = list(jax.profiler.ProfileData.from_file(str(file)).planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    for plane in devices or planes:
        lines = list(plane.lines)
        # A GPU has streams of kernels; a TPU has one line of operations; a CPU has threads, whose
        # operations are among other events.
        chosen = [line for line in lines if line.name.startswith("Stream")]
        chosen = chosen or [line for line in lines if line.name == "XLA Ops"] or lines
        for line in chosen:
            for event in line.events:
                stats = {name: value for name, value in event.stats if isinstance(name, str)}
                named = str(stats.get("hlo_op", "") or (event.name if devices else ""))
                named = operation(named, event.name)
                if named and not CONTAINERS.match(named):
                    yield Event(named, event.name, event.start_ns, event.duration_ns)
