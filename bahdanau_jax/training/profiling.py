"""A trace of some updates by JAX's profiler, for TensorBoard or Perfetto."""

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
    """From `first` updates made until `last` are; the trace goes into `folder`."""

    folder: Path
    first: int
    last: int
    running: bool = False

    @classmethod
    def parse(cls, text: str, folder: Path, steps: int) -> Self:
        """Raises ValueError where it is not FIRST:LAST, or a run to `steps` never comes there.

        >>> Profile.parse("10:15", Path("runs/quickstart/profile"), 4000)
        """
        found = re.fullmatch(r"(\d{1,12}):(\d{1,12})", text)
        if not found or int(found[1]) >= int(found[2]):
            raise ValueError(
                f"--profile is {text!r}, but should be FIRST:LAST, such as 10:15 for the five "
                "updates after the tenth"
            )
        first, last = int(found[1]), int(found[2])
        if first >= steps:
            raise ValueError(
                f"--profile {text} begins at update {first}, but this run ends with {steps}"
            )
        return cls(folder, first, last)

    def begin(self, step: int) -> None:
        """A run that goes on from a later `step` has been there already, and takes no trace."""
        if step > self.first:
            log.warning(
                "--profile %d:%d takes no trace: this run goes on from update %d",
                *(self.first, self.last, step),
            )

    def at(self, step: int, state: Any) -> None:
        """Called before each update, `step` of them having been made.

        Of several processes the first alone traces: on one host all would write the same file.
        """
        if not is_main_process():
            return
        if step == self.first:
            jax.block_until_ready(state)  # what was begun before is no part of it
            jax.profiler.start_trace(self.folder)
            self.running = True
        elif step == self.last:
            jax.block_until_ready(state)
            self.stop()

    def stop(self) -> None:
        if self.running:
            jax.profiler.stop_trace()
            self.running = False
