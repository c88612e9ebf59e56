"""Traces some updates by JAX's profiler, for TensorBoard or Perfetto."""

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import jax

from bahdanau_jax.distributed import is_main_process

log = logging.getLogger(__name__)


@dataclass
class Profile:
    """Traces the updates after the number `first` up to `last` into `folder`."""

    folder: Path
    first: int
    last: int
    running: bool = False

    @classmethod
    def parse(cls, text: str, folder: Path, steps: int) -> Self:
        """Parse FIRST:LAST. Raises ValueError for other texts, or where FIRST is not below `steps`.

        >>> Profile.parse("10:15", Path("runs/quickstart/profile"), 4000)
        """
        match = re.fullmatch(r"(\d{1,12}):(\d{1,12})", text)
        if not match or int(match[1]) >= int(match[2]):
            raise ValueError(
                f"--profile is {text!r}, but should be FIRST:LAST, such as 10:15 for the five "
                "updates after the tenth"
            )
        first, last = int(match[1]), int(match[2])
        if first >= steps:
            raise ValueError(
                f"--profile {text} begins at update {first}, but this run ends with {steps}"
            )
        return cls(folder, first, last)

    def begin(self, step: int) -> None:
        """Warn where a resumed run starts at a `step` after the first one to trace."""
        if step > self.first:
            log.warning(
                "--profile %d:%d takes no trace: this run resumes from update %d",
                *(self.first, self.last, step),
            )

    def at(self, step: int, state: Any) -> None:
        """Start or stop the trace. The loop calls it before each update, after `step` of them.

        Only the main process traces: several on one host would write the same file.
        """
        if not is_main_process():
            return
        if step == self.first:
            jax.block_until_ready(state)  # so that the trace excludes earlier updates
            jax.profiler.start_trace(self.folder)
            self.running = True
        elif step == self.last:
            jax.block_until_ready(state)
            self.stop()

    def stop(self) -> None:
        if self.running:
            jax.profiler.stop_trace()
            self.running = False
