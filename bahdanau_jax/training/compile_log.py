"""compilations.jsonl: the time, shapes and duration of each compilation."""

import datetime
import json
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from jax import monitoring

COMPILED = "/jax/core/compile/backend_compile_duration"
CACHE_HIT = "/jax/compilation_cache/cache_hits"

# What the programs that this thread compiles are for; threads of a search take it over.
_purpose: ContextVar[dict[str, Any]] = ContextVar("purpose")


class CacheHits:
    """Counts the programs that each thread has read from JAX's compilation cache on disk."""

    def __init__(self):
        self._thread = threading.local()
        monitoring.register_event_listener(self._event)

    @property
    def count(self) -> int:
        """The number of programs that the calling thread has read so far."""
        return getattr(self._thread, "count", 0)

    def _event(self, event: str, **_: Any) -> None:
        if event == CACHE_HIT:
            self._thread.count = self.count + 1

    def close(self) -> None:
        monitoring.unregister_event_listener(self._event)


class CompileLog:
    """Writes a line for each program that is compiled while the log is open.

    `now` holds what the calling thread compiles for, in all open logs. `cached` is true for a
    program that was read from JAX's compilation cache.

    >>> with contextlib.closing(CompileLog(workdir / "compilations.jsonl")) as log:
    ...     log.now = {"step": 0, "source": [80, 31], "target": [80, 29]}
    ...     state, sums = step(state, batch)
    """

    def __init__(self, path: Path):
        self._file = path.open("a", encoding="utf-8")
        self._hits, self._thread, self._lock = CacheHits(), threading.local(), threading.Lock()
        self.now = {}
        monitoring.register_event_duration_secs_listener(self._duration)

    @property
    def now(self) -> dict[str, Any]:
        return _purpose.get({})

    @now.setter
    def now(self, purpose: dict[str, Any]) -> None:
        _purpose.set(purpose)

    def _duration(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event != COMPILED:
            return
        hits, before = self._hits.count, getattr(self._thread, "hits", 0)
        self._thread.hits = hits
        line = {
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "program": kwargs.get("fun_name", "unknown"),
            "seconds": round(duration_secs, 4),
            "cached": hits > before,
            **self.now,
        }
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()

    def close(self) -> None:
        self._hits.close()
        monitoring.unregister_event_duration_listener(self._duration)
        with self._lock:
            self._file.close()
