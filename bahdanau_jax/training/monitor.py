"""The output of a training run: its progress, metrics.jsonl and TensorBoard."""

import contextlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from bahdanau_jax.atomic import replaced_file
from bahdanau_jax.batch import Batch
from bahdanau_jax.distributed import is_main_process
from bahdanau_jax.parsing import finite, parse_json
from bahdanau_jax.reporting import PLAIN, SILENT, Reporter, duration
from bahdanau_jax.run_folder import COMPILATIONS, METRICS, TENSORBOARD
from bahdanau_jax.training.compile_log import CompileLog
from bahdanau_jax.training.precompilation import Program
from bahdanau_jax.training.tensorboard import Board

# The fields of a line that differ between two runs with the same configuration.
TIMES = ("seconds", "words_per_second", "first_step_seconds", "first_program_seconds")


def ratio(numerator: float, denominator: float) -> float | None:
    """The quotient; None where it is not finite, since JSON has no such numbers."""
    value = numerator / denominator if denominator else math.nan
    return value if math.isfinite(value) else None


def cut(path: Path, step: int, lines: int) -> int:
    """Drop the lines that a killed run wrote after its checkpoint; return the number of the others.

    The checkpoint is that of `step`, when the file had `lines` lines. An incomplete line and all
    lines after it are dropped. The file is replaced atomically.
    """
    kept = []
    for line in path.read_bytes().splitlines(keepends=True)[:lines] if path.exists() else []:
        try:
            if not line.endswith(b"\n") or parse_json(line)["step"] > step:
                break
        except (ValueError, KeyError, TypeError):
            break
        kept.append(line)
    with replaced_file(path) as draft:
        draft.write_bytes(b"".join(kept))
    return len(kept)


def read_metrics(workdir: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl, also while it trains; [] where there are none.

    Raises ValueError, with the line's number, where a line is not one of a training.
    """
    path = workdir / METRICS
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    lines = []
    for number, text in enumerate(whole.splitlines(), start=1):
        try:
            line = parse_json(text)
        except ValueError:
            line = None
        if not (isinstance(line, dict) and isinstance(line.get("step"), int)):
            raise ValueError(f"{path}:{number}: no line of a training: {text[:80]!r}")
        lines.append(line)
    return lines


class Monitor:
    """Turns the sums of updates into lines of metrics.jsonl, curves and a progress bar.

    A line covers the updates since the line before. One is due every `log_every` updates and after
    the last one. With `state()`, a resumed run writes the same lines as an uninterrupted one. Only
    the main process writes. Where the run `may_stop` early, the time that is left is the longest.
    """

    def __init__(
        self,
        workdir: Path,
        total_steps: int,
        *,
        log_every: int = 20,
        epoch_steps: float = 0,
        may_stop: bool = False,
        reporter: Reporter = PLAIN,
    ):
        self.workdir, self.total_steps = Path(workdir), total_steps
        self._reporter = reporter if is_main_process() else SILENT
        self._stage = SILENT.stage("")
        self.log_every, self.epoch_steps = log_every, epoch_steps
        self._at_most = "at most " if may_stop else ""
        self._window: dict[str, float] = {}  # sums since the last line
        self._started: dict[str, float] = {}  # the fields about the start, for the next line
        self._lines = 0
        self._seconds = 0.0  # since the training began, with earlier starts of the run
        self._paced: tuple[int, float] | None = None  # step and seconds of this start's first line
        self._since = time.perf_counter()
        self._file = self._board = self._programs = None

    def start(self, step: int, state: Mapping[str, Any]) -> None:
        """Open all files at `step`. `state` is the value of `state()` there; {} for a new run."""
        self._window = dict(state.get("window", {}))
        self._seconds = state.get("seconds", 0.0)
        if is_main_process():
            self._open(step, state.get("lines", 0))
        self._since = time.perf_counter()

    def _open(self, step: int, lines: int) -> None:
        self.workdir.mkdir(parents=True, exist_ok=True)
        path = self.workdir / METRICS
        self._lines = cut(path, step, lines)
        self._file = path.open("a", encoding="utf-8")
        self.watch_programs()
        self._board = Board(self.workdir / TENSORBOARD, step)
        if step:
            self.note(f"resuming from step {step} of {self.total_steps}")
        self._stage = self._reporter.stage("training", self.total_steps, done=step)
        self._stage.describe("waiting for the compiler")

    def state(self) -> dict[str, Any]:
        """A JSON object: the sums since the last line, the number of lines, and the seconds."""
        self._tick()
        return {"window": dict(self._window), "lines": self._lines, "seconds": self._seconds}

    def _tick(self) -> None:
        now = time.perf_counter()
        self._seconds += now - self._since
        self._window["seconds"] = self._window.get("seconds", 0.0) + now - self._since
        self._since = now

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Within it, time counts towards `seconds`, but not towards `words_per_second`."""
        self._tick()
        try:
            yield
        finally:
            now = time.perf_counter()
            self._seconds += now - self._since
            self._since = now

    def hand_over(self, other: "Monitor") -> None:
        """Let the monitor of another run show the progress, if this one does."""
        if self._reporter is not SILENT:
            other._reporter, other._stage = self._reporter, self._stage
            self._reporter, self._stage = SILENT, SILENT.stage("")

    def watch_programs(self) -> None:
        """Start the log of compilations, which `start` does otherwise."""
        if self._programs is None and is_main_process():
            self.workdir.mkdir(parents=True, exist_ok=True)
            self._programs = CompileLog(self.workdir / COMPILATIONS)

    def compiling(self, step: int, batch: Batch | None = None) -> None:
        """Tell the log what the next programs are for: this batch, or an evaluation."""
        if self._programs:
            shapes = {"source": batch.source.shape, "target": batch.target.shape} if batch else {}
            self._programs.now = {"step": step, "for": "update" if batch else "evaluation"} | shapes
        if batch is None:
            self._stage.describe("scoring the dev pairs")

    def line_due(self, step: int) -> bool:
        return step % self.log_every == 0 or step == self.total_steps

    def update(
        self, step: int, sums: Mapping[str, float], telemetry: Mapping[str, float] | None = None
    ) -> Mapping[str, Any]:
        """Add the sums of update number `step`: a StepSums as floats.

        `telemetry` becomes a part of the line. Returns the line, {} where none is due.
        """
        for name, value in sums.items():
            self._window[name] = self._window.get(name, 0.0) + float(value)
        self._stage.advance()
        if not self.line_due(step):
            return {}
        self._tick()
        window, self._window = self._window, {}
        line = self._line(window) | dict(telemetry or {}) | self._started
        self._started = {}
        self._write(step, line)
        self._say(step, line)
        return line

    def _line(self, window: Mapping[str, float]) -> dict[str, Any]:
        total = lambda name: window.get(name, 0.0)  # noqa: E731
        return {
            "loss": ratio(total("loss"), total("words")),
            "nll": ratio(total("nll"), total("words")),
            "accuracy": ratio(total("correct"), total("words")),
            "gradient_norm": ratio(total("gradient_norm"), total("updates")),
            "clipped_share": ratio(total("clipped"), total("updates")),
            "skipped": int(total("skipped")),
            "padding_share": ratio(total("positions") - total("tokens"), total("positions")),
            "words_per_second": ratio(total("words"), total("seconds")),
        }

    def evaluation(self, step: int, results: Mapping[str, Any]) -> None:
        """Write the numbers of an evaluation as a line, and its pictures [height, width, 3]."""
        line = {name: value for name, value in results.items() if not np.ndim(value)}
        for name, value in results.items():
            if name not in line:
                self._picture(step, name, value)
        self._write(step, line)
        self.note(f"step {step}: " + ", ".join(f"{k} {_short(v)}" for k, v in line.items()))
        self._stage.describe("training")

    def _picture(self, step: int, name: str, pixels: Shaped[np.ndarray, "height width 3"]) -> None:
        if self._board:
            self._board.picture(step, name, pixels)

    def _write(self, step: int, values: Mapping[str, Any]) -> None:
        head = {"step": step, "epoch": ratio(step, self.epoch_steps), "seconds": self._seconds}
        line = finite({**head, **values})
        if self._file and self._board:
            self._file.write(json.dumps(line, allow_nan=False) + "\n")
            self._file.flush()
            self._lines += 1
            for name, value in line.items():
                if name != "step" and isinstance(value, (int, float)):
                    self._board.scalar(step, name, value)
            self._board.flush()

    def _say(self, step: int, line: Mapping[str, Any]) -> None:
        rate = line["words_per_second"]
        text = f"loss {_short(line['loss'])}/word, {_short(rate)} words/s"
        self._stage.describe(text)
        if self._reporter.live:
            return
        if self._paced is None:  # these updates also waited for the compiler
            self._paced = step, self._seconds
        else:
            first, seconds = self._paced
            left = (self.total_steps - step) * (self._seconds - seconds) / (step - first)
            text += f", {self._at_most}{duration(left)} left"
        self.note(f"step {step}/{self.total_steps}: {text}")

    def first_step(self, seconds: float, program: Program) -> None:
        """Report the time until the end of the first step, and that for its program."""
        verb = "found on disk" if program.cached else "compiled"
        suffix = f"; its program {verb} in {program.seconds:.1f} s" if program.seconds else ""
        self._stage.describe("training")
        self.note(f"first step after {seconds:.1f} s{suffix}")
        self._started = {
            "first_step_seconds": seconds,
            "first_program_seconds": program.seconds,
        }

    def note(self, text: str) -> None:
        """Show a message above the progress bar."""
        self._reporter.note(text)

    def close(self) -> None:
        """Close all files, even where closing one of them fails."""
        files = self._file, self._board, self._programs
        self._file = self._board = self._programs = None
        with contextlib.ExitStack() as stack:
            for file in files:
                if file:
                    stack.callback(file.close)


def _short(value: Any) -> str:
    if value is None or not math.isfinite(value):
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"
