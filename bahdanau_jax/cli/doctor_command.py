"""bahdanau doctor"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bahdanau_jax.cli import options


@dataclass(frozen=True)
class Doctor:
    """Check this installation: versions, devices, folders, known faults, and two updates.

    The updates are those of a small model, whose results are known. The exit code is 2 where there
    is a problem. Put the output into a report of a fault.
    """

    EXAMPLES: ClassVar[Sequence[str]] = ("bahdanau doctor", "JAX_PLATFORMS=cpu bahdanau doctor")


def main(arguments: Sequence[str]) -> None:
    options.parse(Doctor, arguments, "bahdanau doctor")
    from bahdanau_jax import diagnosis

    problems = []
    for finding in diagnosis.diagnose():
        print(
            f"{'problem' if finding.remedy else 'ok':8}{finding.name:24}{finding.value}", flush=True
        )
        if finding.remedy:
            problems.append(f"{finding.name}: {finding.remedy}")
    if not problems:
        return
    counted = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    raise ValueError(f"{counted}: {'; '.join(problems)}")
