"""compilations.jsonl: which programs were compiled when, for which shapes, and how long it took."""

import datetime
import json
import threading
from pathlib import Path
from typing import Any

from jax import monitoring

COMPILED = "/jax/core/compile/backend_compile_duration"
FOUND = "/jax/compilation_cache/cache_hits"


class CompileLog:
    """A line for each program while it is open; `now` says what this thread compiles it for.

    `cached` is true of a program that lay on disk, compiled before.

    >>> with contextlib.closing(CompileLog(workdir / "compilations.jsonl")) as log:
    ...     log.now = {"step": 0, "source": [80, 31], "target": [80, 29]}
    ...     state, sums = step(state, batch)
    """

    def __init__(self, path: Path):
        self._file = path.open("a", encoding="utf-8")
        self._here, self._lock = threading.local(), threading.Lock()
        monitoring.register_event_listener(self._event)
        monitoring.register_event_duration_secs_listener(self._duration)

    @property
    def now(self) -> dict[str, Any]:
        return getattr(self._here, "now", {})

    @now.setter
    def now(self, about: dict[str, Any]) -> None:
        self._here.now = about

    def _event(self, event: str, **kwargs: str | int) -> None:
        if event == FOUND:
            self._here.found = True

    def _duration(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event != COMPILED:
            return
        cached, self._here.found = getattr(self._here, "found", False), False
        line = {
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "program": kwargs.get("fun_name", "unknown"),
            "seconds": round(duration_secs, 4),
            "cached": cached,
            **self.now,
        }
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()

    def close(self) -> None:
        monitoring.unregister_event_listener(self._event)
        monitoring.unregister_event_duration_listener(self._duration)
        with self._lock:
            self._file.close()
