"""Writes scalars and pictures for TensorBoard in the calling thread.

tensorboardX's own SummaryWriter writes in a thread of its own. If this thread dies on a full disk,
its queue fills and training waits for ever.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped
from tensorboardX import summary
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto import event_pb2

# These classes are generated at import, so type checkers do not see them.
_Event, _Session = event_pb2.Event, event_pb2.SessionLog  # pyright: ignore


class Board:
    """An event file in `folder` that starts at `step`. It hides later steps of earlier files.

    Raises OSError where it cannot be written.
    """

    def __init__(self, folder: Path, step: int):
        self._folder = folder
        with self._naming_folder():
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = EventsWriter(str(folder / "events"))
        self._write(step + 1, session_log=_Session(status=_Session.START))

    def scalar(self, step: int, name: str, value: float) -> None:
        self._write(step, summary=summary.scalar(name, value))

    def picture(self, step: int, name: str, pixels: Shaped[np.ndarray, "height width 3"]) -> None:
        """Write an image with 8 bits per colour."""
        self._write(step, summary=summary.image(name, pixels, dataformats="HWC"))

    def flush(self) -> None:
        with self._naming_folder():
            self._writer.flush()

    def close(self) -> None:
        with self._naming_folder():
            self._writer.close()

    def _write(self, step: int, **content: Any) -> None:
        with self._naming_folder():
            self._writer.write_event(_Event(wall_time=time.time(), step=step, **content))

    @contextmanager
    def _naming_folder(self) -> Iterator[None]:
        """Name the folder in any OSError."""
        try:
            yield
        except OSError as error:
            raise OSError(f"cannot write {self._folder}: {error.strerror or error}") from error
