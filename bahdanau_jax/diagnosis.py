"""Diagnosis of an installation: versions, devices, caches, known faults, and two updates.

Each check returns findings. A finding with a remedy is a problem. JAX and all that needs it are
imported by the checks, so that a diagnosis names what cannot be imported.
"""

import contextlib
import functools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from bahdanau_jax import compiler_faults

PACKAGE = "bahdanau-jax"
# Flags of /proc/cpuinfo: the processor computes products in bfloat16.
BFLOAT16 = ("amx_bf16", "avx512_bf16", "avx10_bf16")

PATIENCE = 60.0  # seconds, for a process that looks for devices
CUDA = 'pip install "jax[cuda13]", or "jax[cuda12]" where the driver is older than 580'


class Finding(NamedTuple):
    """One line of a diagnosis."""

    name: str
    value: str
    remedy: str = ""  # what to do about it; "" where nothing is wrong


def diagnose() -> Iterator[Finding]:
    """Yield the findings of all checks.

    >>> [finding for finding in diagnose() if finding.remedy]
    []
    """
    for check in CHECKS:
        try:
            yield from check()
        except Exception as error:  # of any class: broken installations fail in many ways
            name = check.__name__.replace("_", " ")
            line = f"{type(error).__name__}: {error}".splitlines()[0]
            yield Finding(name, f"cannot be made: {line}", "install what is missing or broken")


def versions() -> Iterator[Finding]:
    """The versions of Python, of this package and of what it needs, against their ranges.

    The range of jaxlib is that of the installed JAX.
    """
    yield Finding("python", platform.python_version())
    try:
        yield Finding(PACKAGE, metadata.version(PACKAGE))
    except metadata.PackageNotFoundError:
        yield Finding(PACKAGE, "not installed", "install it: pip install -e . in a checkout")
        return
    for requirement in _needed(PACKAGE):
        yield _version(requirement)
    with contextlib.suppress(metadata.PackageNotFoundError):  # without JAX
        yield from (_version(each) for each in _needed("jax") if each.name == "jaxlib")


def _needed(package: str) -> Iterator[Requirement]:
    """What a package needs without its extras."""
    for requirement in map(Requirement, metadata.requires(package) or []):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def _version(requirement: Requirement) -> Finding:
    name = requirement.name
    remedy = f'pip install "{requirement}"'
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, "not installed", remedy)
    fits = requirement.specifier.contains(version, prereleases=True)
    return Finding(name, version, "" if fits else f"{requirement.specifier} is tested: {remedy}")


def devices() -> Iterator[Finding]:
    """The devices that JAX computes on, and the processor."""
    import jax

    if fault := _fault_of_start():
        yield fault
        return
    try:
        found = jax.devices()
    except (RuntimeError, AssertionError) as error:  # AssertionError: the second time
        line = (str(error).strip().splitlines() or ["JAX finds no device"])[0]
        yield Finding("devices", f"none: {line}", "set JAX_PLATFORMS=cpu, or install its plugin")
        return
    yield Finding("devices", f"{len(found)} x {found[0].device_kind} ({found[0].platform})")
    usable = getattr(os, "sched_getaffinity", None)
    cores = len(usable(0)) if usable else os.cpu_count() or 1  # importing `data` could fail here
    flags = _cpu_flags()
    fast = [flag for flag in BFLOAT16 if flag in flags]
    text = f"bfloat16 products by {fast[0]}" if fast else "no bfloat16 products known"
    yield Finding("processor", f"{cores} cores, {text}")
    if (nvidia := shutil.which("nvidia-smi")) and found[0].platform == "cpu":
        if chosen := _without_gpu():
            yield Finding("GPU", f"{nvidia} exists, but is not used: {chosen}")
        else:
            yield Finding("GPU", f"{nvidia} exists, but JAX has none", CUDA)


@functools.cache
def _fault_of_start() -> Finding | None:
    """The fault of a process that starts JAX, where XLA_FLAGS ends it without an exception.

    It also has a time limit: a driver may wait forever.
    """
    if not os.environ.get("XLA_FLAGS"):
        return None
    code = "import contextlib, jax\nwith contextlib.suppress(BaseException): jax.devices()"
    command = [sys.executable, "-c", code]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        line = f"none: JAX looked for devices for more than {PATIENCE:.0f} s"
        return Finding("devices", line, "unset XLA_FLAGS, or set JAX_PLATFORMS=cpu")
    lines = ended.stderr.strip().splitlines() or ["JAX crashes"]
    remedy = "correct or unset XLA_FLAGS"
    return Finding("devices", f"none: {lines[-1]}", remedy) if ended.returncode else None


def _without_gpu() -> str:
    """The variable by which the user chose to work without a GPU; "" where none does."""
    for name in ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES"):
        value = os.environ.get(name)
        if value in ("cpu", "-1") or (value == "" and name.startswith("CUDA")):
            return f"{name}={value}"
    return ""


def _cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.split()}


def faults() -> Iterator[Finding]:
    """Known faults of the installed compiler."""
    fault = compiler_faults.FAULTS.get(metadata.version("jaxlib"))
    if fault is None:
        yield Finding("compiler faults", "none known of this jaxlib")
    elif compiler_faults.present():
        yield Finding("compiler faults", fault.what, compiler_faults.advice(fault))
    else:
        yield Finding("compiler faults", f"avoided by XLA_FLAGS: {fault.source}")


def folders() -> Iterator[Finding]:
    """The cache of compiled programs, the folder of temporary files, and that of data."""
    if cache := os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        sizes = []
        for path in Path(cache).rglob("*"):
            with contextlib.suppress(OSError):  # another process may have removed it
                sizes += [path.stat().st_size] if path.is_file() else []
        text = f"{len(sizes)} files, {sum(sizes) / 2**20:,.0f} MiB"
        yield _writable("compiled programs", Path(cache), text)
    temporary = Path(tempfile.gettempdir())
    free = shutil.disk_usage(temporary).free / 2**30
    yield _writable("temporary files", temporary, f"{free:,.1f} GiB free")
    for name in ("BAHDANAU_DATA", "TMPDIR"):
        if folder := os.environ.get(name):
            remedy = "" if Path(folder).is_dir() else f"set {name} to a folder that exists"
            yield Finding(name, folder, remedy)


def _writable(name: str, folder: Path, text: str) -> Finding:
    parent = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    remedy = ""
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        remedy = f"make {parent} a writable folder ({error.strerror})"
    return Finding(name, f"{folder}, {text}", remedy)


def self_test() -> Iterator[Finding]:
    """Two updates of a small model against numbers of loops in float64."""
    import numpy as np

    from bahdanau_jax import known_updates

    if any(finding.remedy for finding in devices() if finding.name == "devices"):
        return  # which `devices` tells
    for compute_dtype, tolerance in known_updates.TOLERANCE.items():
        numbers = known_updates.updates(compute_dtype)
        expected = known_updates.EXPECTED
        off = np.max(np.abs(np.divide(numbers, expected) - 1))  # NaN if any of them is
        remedy = (
            ""
            if off <= tolerance
            else f"expected {expected.text()}: this JAX computes wrong results on this device"
        )
        yield Finding(
            f"two updates, {compute_dtype}", f"{numbers.text()}; off by {off:.1e}", remedy
        )


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    versions,
    devices,
    faults,
    folders,
    self_test,
)
