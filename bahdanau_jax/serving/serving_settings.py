"""Settings of the server: its limits, and how it batches requests. Nothing heavy is imported."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Settings:
    """The limits of the server, and how it batches requests."""

    batch_wait_ms: float = 5.0  # the longest wait for requests that can share a search
    batch_lines: int = 16  # lines of one search; 1: requests do not share a search
    queue_lines: int = 512  # lines of a run that may wait; further requests are answered with 503
    max_lines: int = 64  # lines of a request
    max_characters: int = 2_000  # characters of a line
    max_body: int = 1 << 20  # bytes of a request
    max_beam: int = 32  # hypotheses of a line that a request or preset may ask for
    rate: float = 100.0  # requests a second of one client, with bursts of twice as many; 0: any
    warm_tokens: int = 48  # tokens of the longest lines whose programs are compiled at the start


# Setting -> (its smallest value, its largest value).
BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "batch_wait_ms": (0, 60_000),
        "batch_lines": (1, 4_096),
        "queue_lines": (1, math.inf),
        "max_lines": (1, math.inf),
        "max_characters": (1, 1 << 20),
        "max_body": (1_000, math.inf),
        "max_beam": (1, 1_000),
        "rate": (0, math.inf),
        "warm_tokens": (0, 10_000),
    }
)


def check(settings: Settings) -> None:
    """Raise ValueError with all faults of the settings, one in each line.

    >>> check(Settings(batch_lines=0))
    Traceback (most recent call last):
    ValueError: --batch-lines is 0, but should be at least 1 and at most 4096
    """
    faults = []
    for name, (least, most) in BOUNDS.items():
        value = getattr(settings, name)
        if not least <= value <= most or math.isinf(value):
            above = "" if math.isinf(most) else f" and at most {most}"
            faults.append(f"{_option(name)} is {value}, but should be at least {least}{above}")
    if settings.queue_lines < settings.max_lines:
        faults.append(
            f"--queue-lines is {settings.queue_lines}, but a request may have {settings.max_lines} "
            "lines (--max-lines): give a longer queue or a lower limit"
        )
    if faults:
        raise ValueError("\n".join(faults))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
