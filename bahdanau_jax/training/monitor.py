"""What a run says of itself: its progress, metrics.jsonl, TensorBoard; and the folder's lock."""

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
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.reporting import PLAIN, SILENT, Reporter
from bahdanau_jax.run_folder import COMPILATIONS, METRICS
from bahdanau_jax.training.compile_log import CompileLog
from bahdanau_jax.training.precompilation import Program
from bahdanau_jax.training.tensorboard import Board

# Fields of a line that no two runs share.
TIMES = ("seconds", "words_per_second", "first_step_seconds", "first_program_seconds")


def ratio(numerator: float, denominator: float) -> float | None:
    """The quotient; None, which JSON can hold, where it is no finite number."""
    value = numerator / denominator if denominator else math.nan
    return value if math.isfinite(value) else None


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _jsonable(item) for name, item in value.items()}
    if isinstance(value, (int, str)) or value is None:
        return value
    return float(value) if math.isfinite(value) else None


def cut(path: Path, step: int, lines: int) -> int:
    """Drop what a dead run wrote after it saved `step`, its first `lines` lines; returns what stay.

    A torn line, and all behind it, goes too. The file is replaced in one move.
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
    """The lines of a run's metrics.jsonl, also while it trains; none where it has said nothing.

    Raises ValueError, with the number of the line, where one is no line of a training.
    """
    path = workdir / METRICS
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    found = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            read = parse_json(line)
        except ValueError:
            read = None
        if not (isinstance(read, dict) and isinstance(read.get("step"), int)):
            raise ValueError(f"{path}:{number}: no line of a training: {line[:80]!r}")
        found.append(read)
    return found


class Monitor:
    """Sums of updates in; lines, curves and a bar out.

    A line covers the updates since the last one, at every `log_every` updates and at the last.
    `state()` is all that a resumed run needs to write the very lines an unbroken one would have.
    Of several processes the first alone writes.
    """

    def __init__(
        self,
        workdir: Path,
        total_steps: int,
        *,
        log_every: int = 20,
        epoch_steps: float = 0,
        reporter: Reporter = PLAIN,
    ):
        self.workdir, self.total_steps = Path(workdir), total_steps
        self._reporter = reporter if is_main_process() else SILENT
        self._stage = SILENT.stage("")
        self.log_every, self.epoch_steps = log_every, epoch_steps
        self._window: dict[str, float] = {}  # sums since the last line
        self._started: dict[str, float] = {}  # what the next line says of the start
        self._lines = 0
        self._seconds = 0.0  # of training, of all processes
        self._since = time.perf_counter()
        self._file = self._board = self._programs = None

    def start(self, step: int, state: Mapping[str, Any]) -> None:
        """Open everything at `step`; `state` is what `state()` was there, {} in a new run."""
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
        self._board = Board(self.workdir / "tensorboard", step)
        if step:
            self.note(f"going on from step {step} of {self.total_steps}")
        self._stage = self._reporter.stage("training", self.total_steps, done=step)
        self._stage.describe("waiting for the compiler")

    def state(self) -> dict[str, Any]:
        """JSON: the sums since the last line, and how many lines there are."""
        self._tick()
        return {"window": dict(self._window), "lines": self._lines, "seconds": self._seconds}

    def _tick(self) -> None:
        now = time.perf_counter()
        self._seconds += now - self._since
        self._window["seconds"] = self._window.get("seconds", 0.0) + now - self._since
        self._since = now

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Time that counts towards `seconds`, but not towards the rate of training."""
        self._tick()
        try:
            yield
        finally:
            now = time.perf_counter()
            self._seconds += now - self._since
            self._since = now

    def watch_programs(self) -> None:
        """From now on it is written down what is compiled; otherwise `start` begins with that."""
        if self._programs is None and is_main_process():
            self.workdir.mkdir(parents=True, exist_ok=True)
            self._programs = CompileLog(self.workdir / COMPILATIONS)

    def compiling(self, step: int, batch: Batch | None = None) -> None:
        """What the programs are for that are compiled from now on: a batch, or an evaluation."""
        if self._programs:
            shapes = {"source": batch.source.shape, "target": batch.target.shape} if batch else {}
            self._programs.now = {"step": step, "for": "update" if batch else "evaluation"} | shapes
        if batch is None:
            self._stage.describe("scoring the dev pairs")

    def line_due(self, step: int) -> bool:
        return step % self.log_every == 0 or step == self.total_steps

    def update(
        self, step: int, sums: Mapping[str, float], measured: Mapping[str, float] | None = None
    ) -> Mapping[str, Any]:
        """The sums of one update (StepSums as floats), `step` updates having been made.

        `measured` goes into the line as it is. Returns the line, {} where none is due.
        """
        for name, value in sums.items():
            self._window[name] = self._window.get(name, 0.0) + float(value)
        self._stage.advance()
        if not self.line_due(step):
            return {}
        self._tick()
        window, self._window = self._window, {}
        line = self._line(window) | dict(measured or {}) | self._started
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

    def evaluation(self, step: int, found: Mapping[str, Any]) -> None:
        """A line of its own for what was evaluated; pictures [height, width, 3] to TensorBoard."""
        line = {name: value for name, value in found.items() if not np.ndim(value)}
        for name, value in found.items():
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
        line = _jsonable({**head, **values})
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
        left = ratio((self.total_steps - step) * self._seconds, step)
        self.note(f"step {step}/{self.total_steps}: {text}, {_short(left)} s left")

    def first_step(self, seconds: float, program: Program) -> None:
        """How long it took to the end of the first step, and to make its program."""
        how = "found on disk" if program.found else "compiled"
        what = f"; its program {how} in {program.seconds:.1f} s" if program.seconds else ""
        self._stage.describe("training")
        self.note(f"first step after {seconds:.1f} s{what}")
        self._started = {
            "first_step_seconds": seconds,
            "first_program_seconds": program.seconds,
        }

    def note(self, text: str) -> None:
        """A message for whoever watches, which leaves the bar whole."""
        self._reporter.note(text)

    def close(self) -> None:
        opened = self._file, self._board, self._programs
        self._file = self._board = self._programs = None
        with contextlib.ExitStack() as every:  # each, whatever the others say
            for one in opened:
                if one:
                    every.callback(one.close)


def _short(value: Any) -> str:
    if value is None or not math.isfinite(value):
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"
