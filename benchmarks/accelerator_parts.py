"""The parts of the benchmark of an accelerator: which programs run, and with which cases."""

import functools
import itertools
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bahdanau_jax.reporting import say
from benchmarks import learning_benchmark, program_cache, sizes
from benchmarks.accelerator_plan import COMPILER, EAGER, SOON, TORCH, Request, Scale
from benchmarks.peers import process
from benchmarks.peers.process import Failure, Peer, TimeLimit

LEAST_SECONDS = 12.0  # a program is not started with less time than this
MARGIN, SPARE = 1.2, 5.0  # a group may take longer than the last one, and its cases take seconds
FIRST_GROUP = 2  # programs that are compiled at once at first: too many would take all of the time
GROUP_SHARE = 0.125  # of the time left: groups grow while their compilation takes less
ENDING_SECONDS = 8.0  # for a training that saves before it ends
TRAINING, METRICS = "training", "training.metrics.jsonl"
PRINTED = (  # figures that are shown as soon as they are measured
    "failed",
    "passed",
    "difference",
    "sentences_per_second",
    "target_words_per_second",
    "milliseconds",
    "busy_share",
    "bleu",
)
Case = Mapping[str, Any]
Ask = Callable[[Peer, Case], Mapping[str, Any]]


class NoTime(Exception):
    """No more cases fit into the time of a part; the message is the reason."""


@dataclass
class Part:
    """A part under way: its results, and the time.monotonic() at which it has to end."""

    results: dict[str, Any]
    save: Callable[[], None]
    until: float
    last: float = 0.0  # seconds of the last group's compilation, or of the last case of another one

    def left(self) -> float:
        return self.until - time.monotonic()

    def check_time(self, least: float = 0.0) -> None:
        """Raise NoTime where a group that takes as long as the last one would not end in time."""
        left, needed = self.left(), MARGIN * self.last + SPARE if self.last else 0.0
        if left < max(least, needed):
            least_of_all = f"a program needs at least {least:.0f}"
            why = least_of_all if needed < least else f"the last group took {self.last:.0f}"
            raise NoTime(f"{max(0.0, left):.0f} s were left, and {why}")

    def add(self, case: Case, answer: Mapping[str, Any]) -> None:
        self.results.setdefault("figures", []).append({**case, **answer})
        self.save()
        named = " ".join(f"{name}={value}" for name, value in case.items())
        figures = ", ".join(f"{name} {answer[name]}" for name in PRINTED if name in answer)
        say(f"{named}: {figures}")

    def leave_out(self, cases: Sequence[Case], reason: str) -> None:
        self.results.setdefault("left_out", []).extend({**case, "reason": reason} for case in cases)
        self.save()
        say(f"left out, {reason}: {len(cases)} cases")


def ask_each(
    part: Part,
    start: Callable[[float], Peer],
    cases: Sequence[Case],
    ask: Ask,
    label: Case = MappingProxyType({}),
) -> None:
    """Ask a program for each case, in groups if its greeting has `threads` to compile.

    `start` starts the program with a time limit in seconds. A case that ends the program is
    recorded with its error, and the others go to a new process. After a group has ended it, cases
    are compiled one by one. Cases are left out where their group would not end in time.
    """
    waiting, current, size, most = [*cases], [*cases[:1]], FIRST_GROUP, len(cases)
    while waiting:
        try:
            part.check_time(LEAST_SECONDS)
            with start(part.left()) as peer:
                part.results.setdefault("program", peer.greeting)
                while waiting:
                    part.check_time()
                    threads = peer.greeting.get("threads", 0)
                    current = waiting[: min(size, threads, most) or 1]
                    if threads:
                        size = _compile(peer, current, size, part)
                    for case in [*current]:
                        current = [case]
                        part.add({**label, **case}, _answer(part, peer, case, ask))
                        waiting.remove(case)
        except (NoTime, TimeLimit) as error:
            reason = str(error) if isinstance(error, NoTime) else "the time of this part was over"
            part.leave_out([{**label, **case} for case in waiting], reason)
            return
        except Failure as error:
            say(str(error))
            if len(current) > 1:  # one of them, while the group was compiled
                most, current = 1, waiting[:1]
                continue
            for case in current:
                part.add({**label, **case}, {"failed": str(error)})
                waiting.remove(case)
            current = waiting[:1]


def _compile(peer: Peer, cases: Sequence[Case], size: int, part: Part) -> int:
    """Compile a group; return the size of the next one, which is larger where time allows it."""
    seconds = peer.ask(do="compile", cases=[dict(case) for case in cases])["seconds"]
    part.last = seconds
    say(f"compiled {len(cases)} programs in {seconds} s")
    return 2 * size if seconds < GROUP_SHARE * part.left() else size


def _answer(part: Part, peer: Peer, case: Case, ask: Ask) -> Mapping[str, Any]:
    """Ask for a case; where a program does not compile in groups, its time is that of a group."""
    start, answer = time.monotonic(), ask(peer, case)
    if not peer.greeting.get("threads"):
        part.last = time.monotonic() - start
    return answer


def _program(
    module: str,
    argument: Any,
    setting: str = "default",
    flags: str = "",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[float], Peer]:
    """Starts a program of ours with a setting of the compiler, and with more flags of XLA."""
    command = process.ours(f"benchmarks.{module}", json.dumps(argument))
    all_flags = " ".join(f"{os.environ.get('XLA_FLAGS', '')} {COMPILER[setting]} {flags}".split())
    variables = {"XLA_FLAGS": all_flags, **program_cache.of_flags(all_flags), **environment}
    return lambda seconds: Peer(module, command, seconds, variables)


def _timed(scale: Scale) -> Ask:
    return lambda peer, case: peer.ask(
        do="time", case=dict(case), seconds=scale.seconds, rounds=scale.rounds
    )


def correctness(part: Part, request: Request, scale: Scale) -> None:
    """Compare the accelerator with the CPU, by programs that are compiled soon."""
    from benchmarks import device_comparison  # which imports JAX

    cases = [{"comparison": name} for name in device_comparison.names(scale.quick)]
    start = _program("device_comparison", {}, flags=SOON, environment=_with_cpu())
    part.results["added_xla_flags"] = SOON
    ask_each(part, start, cases, lambda peer, case: peer.ask(do="compare", **case))


def _with_cpu() -> dict[str, str]:
    """JAX_PLATFORMS with the CPU, where the user named others alone."""
    given = os.environ.get("JAX_PLATFORMS", "")
    return {"JAX_PLATFORMS": f"{given},cpu"} if given and "cpu" not in given.split(",") else {}


def _updates(
    lengths: Sequence[int],
    precisions: Sequence[str],
    batches: Sequence[int],
    gradients: str = "deferred",
) -> list[Case]:
    return [
        {"batch": batch, "length": length, "precision": precision, "gradients": gradients}
        for length, precision, batch in itertools.product(lengths, precisions, batches)
    ]


def training(part: Part, request: Request, scale: Scale) -> None:
    """Time updates: batches in rounded products, settings, full products, the other lengths."""
    first, *others = scale.lengths
    start = functools.partial(_program, "device_updates", scale.size._asdict())
    rows, repeats, elements = scale.limits

    def ask(peer: Peer, case: Case) -> Mapping[str, Any]:
        if "limits" not in part.results:
            part.results["limits"] = {}  # an error is that of this case alone
            part.results["limits"] = peer.ask(
                do="limits", rows=rows, repeats=repeats, elements=elements
            )
        return _timed(scale)(peer, case)

    quickest = scale.precisions[:1]
    rounded = [each for each in scale.precisions if each != "float32"]
    cases = _updates([first], rounded, scale.batches)
    cases += _updates([first], quickest, scale.compared, "autodiff")
    ask_each(part, start("default"), cases, ask, {"compiler": "default"})
    compared = _updates([first], quickest, scale.compared)
    for setting in scale.settings:
        if setting != "default":
            ask_each(part, start(setting), compared, _timed(scale), {"compiler": setting})
    full = [each for each in scale.precisions if each == "float32"]
    cases = _updates([first], full, scale.batches)
    cases += _updates(others, scale.precisions, scale.batches)
    ask_each(part, start("default"), cases, ask, {"compiler": "default"})


def profile(part: Part, request: Request, scale: Scale) -> None:
    """Trace a few updates, and list their costliest operations."""
    start = _program("device_updates", scale.size._asdict())
    cases = _updates(scale.lengths[:1], scale.precisions[:1], scale.compared)

    def ask(peer: Peer, case: Case) -> Mapping[str, Any]:
        name = f"update-{case['batch']}"
        return peer.ask(do="profile", case=dict(case), folder=str(request.output), name=name)

    ask_each(part, start, cases, ask)


def decoding(part: Part, request: Request, scale: Scale) -> None:
    """Time searches of random sentences by random weights."""
    start = _program("device_search", scale.size._asdict())
    cases = [
        {"beam": beam, "batch": batch, "length": scale.lengths[0], "precision": precision}
        for precision, batch, beam in itertools.product(
            scale.precisions[:2], scale.searched, scale.beams
        )
    ]
    ask_each(part, start, cases, _timed(scale))


def torch(part: Part, request: Request, scale: Scale) -> None:
    """Time the updates of PyTorch, of which those by its compiler come last."""

    def ask(peer: Peer, case: Case) -> Mapping[str, Any]:
        answer = peer.ask(do="case", seconds=scale.seconds, rounds=scale.rounds, **case)
        if "failed" in answer:
            return answer
        size = scale.size._replace(B=case["batch"], S=case["length"], T=case["length"])
        return {
            "target_words_per_second": round(size.B * size.T / answer["seconds"], 1),
            "gflops": round(sizes.flops(size) / answer["seconds"] / 1e9, 1),
            "device": peer.greeting.get("device"),  # "cpu" beside a TPU
            **answer,
        }

    for name, changes in TORCH.items():
        is_compiled = "compile" in changes
        if is_compiled and scale.quick:  # compiling takes a minute also where nothing is computed
            continue
        settings = {"size": scale.size._asdict(), "settings": {**EAGER, **changes}}
        settings |= {"weights": "", "first_step": False}
        file = str(Path(process.__file__).with_name("torch_step.py"))
        command = [str(request.torch_python), file, json.dumps(settings)]
        precisions = scale.precisions[: 1 if is_compiled else 2]
        cases = [
            {"batch": batch, "length": scale.lengths[0], "precision": precision}
            for precision, batch in itertools.product(precisions, scale.compared)
        ]

        def start(seconds: float, name: str = name, command: Sequence[str] = command) -> Peer:
            return Peer(name, command, seconds)

        ask_each(part, start, cases, ask, {"program": name})


def learning(part: Part, request: Request, scale: Scale) -> None:
    """Train for the time left; the figures are the BLEU of the dev pairs over time."""
    assert request.config is not None
    settings, folder = request.scratch / "settings.json", request.scratch / TRAINING
    request.config.save(settings)
    command = process.ours("benchmarks.learning_benchmark", str(settings), str(folder))
    start, known = time.monotonic(), {}

    def bleus() -> Mapping[int, float]:
        scores = learning_benchmark.bleus(folder)
        for updates, bleu in scores.items():
            if updates not in known:
                known[updates] = bleu
                seconds = round(time.monotonic() - start, 1)
                part.add({"updates": updates}, {"seconds": seconds, "bleu": round(bleu, 2)})
        return scores

    minutes = (part.left() - ENDING_SECONDS) / 60
    log = request.scratch / "training.log"
    watched = learning_benchmark.watched(
        TRAINING, command, bleus, math.inf, minutes, log, ENDING_SECONDS
    )
    if (metrics := folder / "metrics.jsonl").exists():
        shutil.copyfile(metrics, request.output / METRICS)
    if "failed" in watched:
        raise ValueError(watched["failed"])
