"""Known faults of JAX's compilers, and the options that avoid them.

JAX is not imported here, so that options can be set before JAX reads them.
"""

import os
from collections.abc import Mapping, MutableMapping
from importlib import metadata
from types import MappingProxyType
from typing import Any, NamedTuple


class Fault(NamedTuple):
    """A fault of one version of jaxlib, and the option of XLA_FLAGS that avoids it."""

    what: str  # the consequence, in words
    source: str  # the address of its report
    option: str  # the name of the option
    value: str  # the value that avoids the fault


# Version of jaxlib -> its fault.
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "0.10.2": Fault(
            what=(
                "jaxlib 0.10.2 compiles wrong results on a CPU, without a warning, for a batched "
                "matrix-vector product followed by a sum, from 32,769 rows on (float64: 16,385)"
            ),
            source="https://github.com/jax-ml/jax/issues/39103",
            option="xla_cpu_experimental_ynn_fusion_type",
            value="-reduce",
        )
    }
)


# Platform -> options of its compiler for one program, an argument of `jax.jit`. On a CPU, XLA turns
# the sums and maxima that YNNPACK does not compute into trees of windows, which take up to six
# times as long as plain loops. Trees are more exact for sums of millions of numbers: add such
# numbers up in two stages.
PLAIN_REDUCTIONS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {"cpu": {"xla_disable_hlo_passes": "tree_reduction_rewriter"}}
)


def present(environment: Mapping[str, str] = os.environ) -> Fault | None:
    """Return the fault of the installed jaxlib, or None where XLA_FLAGS avoid it."""
    try:
        fault = FAULTS.get(metadata.version("jaxlib"))
    except metadata.PackageNotFoundError:
        return None
    if fault is None:
        return None
    given = _values(fault, environment)
    avoided = bool(given) and (given[-1] == "" or fault.value in given[-1].split(","))
    return None if avoided else fault


def _values(fault: Fault, environment: Mapping[str, str]) -> list[str]:
    """The values that XLA_FLAGS give to the option; XLA takes the last one."""
    flags = (flag.partition("=") for flag in environment.get("XLA_FLAGS", "").split())
    return [value.strip("\"'") for name, _, value in flags if name.lstrip("-") == fault.option]


def avoid(environment: MutableMapping[str, str] = os.environ) -> None:
    """Add the option to XLA_FLAGS. XLA reads them once, when JAX first looks for devices.

    A user's own value of the option is never overridden. Flags that do not begin with - are the
    name of a file for XLA, to which nothing can be added.
    """
    flags = environment.get("XLA_FLAGS", "")
    if flags.strip() and not flags.lstrip().startswith("-"):
        return
    if (fault := present(environment)) and not _values(fault, environment):
        environment["XLA_FLAGS"] = f"{flags} --{fault.option}={fault.value}".strip()


def advice(fault: Fault) -> str:
    """Return one line for the log: the consequence, its source and how to avoid it."""
    return (
        f"{fault.what} ({fault.source}); set XLA_FLAGS=--{fault.option}={fault.value} before the "
        "first use of JAX"
    )
