"""Diagnosis of an installation: versions, devices, caches, known faults, and two updates.

Each check returns findings. A finding with a remedy is a problem.
"""

import dataclasses
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import jax
import numpy as np
from packaging.requirements import Requirement

from bahdanau_jax import compiler_faults, model, training
from bahdanau_jax.batch import Batch, pad
from bahdanau_jax.config import Config, DataConfig, ModelConfig, OptimizerConfig

PACKAGE = "bahdanau-jax"
# Flags of /proc/cpuinfo -> products that the processor computes in bfloat16.
BFLOAT16 = ("amx_bf16", "avx512_bf16", "avx10_bf16")


class Finding(NamedTuple):
    """One line of a diagnosis."""

    name: str
    value: str
    remedy: str = ""  # what to do about it; "" where nothing is wrong


class Numbers(NamedTuple):
    """The results of two updates of the model of the self-test."""

    loss: float  # nats for each word, before the first update
    gradient_norm: float
    next_loss: float  # before the second update


# The configuration of the self-test; a model of every part that the paper has.
SELF_TEST = Config(
    model=ModelConfig(
        source_vocabulary=11,
        target_vocabulary=13,
        embedding_size=5,
        hidden_size=7,
        alignment_size=3,
        readout_size=4,
    ),
    data=DataConfig(train="", dev="", test=""),
    optimizer=OptimizerConfig(name="adadelta"),
)
PAIRS = (((3, 7, 2, 10, 0), (5, 1, 12, 0)), ((4, 0), (9, 3, 3, 11, 2, 0)))  # EOS is 0
# Its results by the loops of tests/oracles.py in float64, and how far others may be off.
EXPECTED = Numbers(loss=2.6669324, gradient_norm=8.428659, next_loss=2.6066606)
TOLERANCE: Mapping[str, float] = MappingProxyType({"float32": 1e-4, "bfloat16": 3e-2})


def diagnose() -> Iterator[Finding]:
    """Yield the findings of all checks.

    >>> [finding for finding in diagnose() if finding.remedy]
    []
    """
    for check in CHECKS:
        yield from check()


def versions() -> Iterator[Finding]:
    """The versions of Python, of this package and of what it needs, against their ranges."""
    yield Finding("python", platform.python_version())
    try:
        needed = metadata.requires(PACKAGE) or []
        yield Finding(PACKAGE, metadata.version(PACKAGE))
    except metadata.PackageNotFoundError:
        yield Finding(PACKAGE, "not installed", "install it: pip install -e . in a checkout")
        return
    for requirement in map(Requirement, needed):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield _version(requirement)


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
    try:
        found = jax.devices()
    except RuntimeError as error:
        line = str(error).strip().splitlines()[0]
        yield Finding("devices", f"none: {line}", "set JAX_PLATFORMS=cpu, or install its plugin")
        return
    yield Finding("devices", f"{len(found)} x {found[0].device_kind} ({found[0].platform})")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    flags = _cpu_flags()
    fast = [flag for flag in BFLOAT16 if flag in flags]
    text = f"bfloat16 products by {fast[0]}" if fast else "no bfloat16 products known"
    yield Finding("processor", f"{cores} cores, {text}")
    if (nvidia := shutil.which("nvidia-smi")) and found[0].platform == "cpu":
        yield Finding("GPU", f"{nvidia} exists, but JAX has none", 'pip install "jax[cuda13]"')


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
        files = [path for path in Path(cache).rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files) / 2**20
        yield _writable("compiled programs", Path(cache), f"{len(files)} files, {size:,.0f} MiB")
    temporary = Path(tempfile.gettempdir())
    free = shutil.disk_usage(temporary).free / 2**30
    yield _writable("temporary files", temporary, f"{free:,.1f} GiB free")
    if data := os.environ.get("BAHDANAU_DATA"):
        remedy = "" if Path(data).is_dir() else "set BAHDANAU_DATA to a folder that exists"
        yield Finding("BAHDANAU_DATA", data, remedy)


def _writable(name: str, folder: Path, text: str) -> Finding:
    parent = next(each for each in (folder, *folder.parents) if each.exists())
    remedy = "" if os.access(parent, os.W_OK) else f"make {parent} writable"
    return Finding(name, f"{folder}, {text}", remedy)


def self_test() -> Iterator[Finding]:
    """Two updates of a small model against numbers of loops in float64."""
    for compute_dtype, tolerance in TOLERANCE.items():
        numbers = updates(compute_dtype)
        off = max(abs(a / b - 1) for a, b in zip(numbers, EXPECTED, strict=True))
        remedy = (
            ""
            if off <= tolerance
            else f"expected {_text(EXPECTED)}: this JAX computes wrong results on this device"
        )
        yield Finding(
            f"two updates, {compute_dtype}", f"{_text(numbers)}; off by {off:.1e}", remedy
        )


def updates(compute_dtype: str = "float32") -> Numbers:
    """Make two updates of the self-test's model.

    >>> updates().loss
    """
    settings = dataclasses.replace(SELF_TEST.model, compute_dtype=compute_dtype)
    trainer = training.Trainer(dataclasses.replace(SELF_TEST, model=settings))
    state, sums = trainer.begin(weights()), []
    for _ in range(2):
        state, each = trainer.update(state, trainer.backend.feed(batch(trainer.row_multiple)))
        sums.append(each)
    losses = [float(each.loss / each.words) for each in sums]
    return Numbers(losses[0], float(sums[0].gradient_norm), losses[1])


def weights() -> model.Params:
    """The weights of the self-test's model, which NumPy draws: the same on every machine."""
    draw = np.random.default_rng(0).normal
    return jax.tree.map(
        lambda leaf: draw(scale=0.4, size=leaf.shape).astype(np.float32),
        model.shapes(SELF_TEST.model),
    )


def batch(multiple: int = 1) -> Batch:
    """The pairs of the self-test, with rows of weight 0 up to a multiple of `multiple`."""
    rows = -(-len(PAIRS) // multiple) * multiple
    source, target = zip(*PAIRS, strict=True)
    weight = (np.arange(rows) < len(PAIRS)).astype(np.float32)
    return Batch(*pad(source, 6, rows), *pad(target, 7, rows), weight)


def _text(numbers: Numbers) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value:.6f}" for name, value in numbers._asdict().items()
    )


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    versions,
    devices,
    faults,
    folders,
    self_test,
)
