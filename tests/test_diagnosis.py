"""The diagnosis of an installation; the self-test's numbers follow from the loops in float64."""

import dataclasses
import math
import os
import subprocess
import sys
from importlib import metadata

import jax
import numpy as np
import pytest

from bahdanau_jax import compiler_faults, diagnosis, known_updates, training
from bahdanau_jax.config import ModelConfig
from tests import oracles, small


def _loss(params) -> float:
    """Nats for each word by the oracle."""
    words = sum(len(target) for _, target in known_updates.PAIRS)
    return oracles.loss(known_updates.SELF_TEST.model, params, known_updates.PAIRS) / words


@pytest.mark.slow
def test_the_expected_numbers_are_those_of_the_oracle():
    """The gradient by central differences; then clipping and Adadelta by hand."""
    flat, tree = jax.tree.flatten(oracles.f64(known_updates.weights()))
    words = sum(len(target) for _, target in known_updates.PAIRS)
    gradient = [np.zeros_like(leaf) for leaf in flat]
    for leaf, g in zip(flat, gradient, strict=True):
        for index in np.ndindex(leaf.shape):
            kept = leaf[index]
            ends = []
            for step in (1e-6, -1e-6):
                leaf[index] = kept + step
                ends.append(_loss(jax.tree.unflatten(tree, flat)) * words)
            leaf[index] = kept
            g[index] = (ends[0] - ends[1]) / 2e-6
    norm = math.sqrt(sum(float((g**2).sum()) for g in gradient))
    settings = known_updates.SELF_TEST.optimizer
    assert (settings.name, settings.loss_normalization) == ("adadelta", "sum")
    before = _loss(jax.tree.unflatten(tree, flat))
    for leaf, g in zip(flat, gradient, strict=True):
        g *= min(1, settings.clip_norm / norm)
        leaf -= math.sqrt(1e-6) / np.sqrt(0.05 * g**2 + 1e-6) * g
    after = _loss(jax.tree.unflatten(tree, flat))
    assert pytest.approx((before, norm, after), rel=1e-6) == known_updates.EXPECTED


@pytest.mark.parametrize(
    "compute_dtype",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name != "float32"))
        for name in known_updates.TOLERANCE
    ],
)
def test_two_updates_have_these_numbers(compute_dtype, monkeypatch):
    precisions, loss = set(), training.Trainer.loss

    def recorded(self, *arguments):
        precisions.add(jax.config.jax_default_matmul_precision)
        return loss(self, *arguments)

    monkeypatch.setattr(training.Trainer, "loss", recorded)
    found = known_updates.updates(compute_dtype)
    assert precisions == {"highest"}  # an accelerator's default would miss the tolerance
    tolerance = known_updates.TOLERANCE[compute_dtype]
    assert found == pytest.approx(known_updates.EXPECTED, rel=tolerance / 3)
    assert abs(found.next_loss / found.loss - 1) > 3 * 1e-4  # the update counts


@pytest.mark.slow
def test_wrong_results_are_a_problem(monkeypatch):
    assert not any(finding.remedy for finding in diagnosis.self_test())
    wrong = known_updates.EXPECTED._replace(loss=known_updates.EXPECTED.loss * 1.001)
    monkeypatch.setattr(known_updates, "EXPECTED", wrong)
    first, second = diagnosis.self_test()
    assert "computes wrong results" in first.remedy and not second.remedy
    numbers = known_updates.EXPECTED._replace(**{known_updates.EXPECTED._fields[-1]: float("nan")})
    monkeypatch.undo()
    monkeypatch.setattr(known_updates, "updates", lambda _: numbers)
    for finding in diagnosis.self_test():
        assert "computes wrong results" in finding.remedy and "off by nan" in finding.value


def test_versions_are_compared_with_their_ranges(monkeypatch):
    found = {finding.name: finding for finding in diagnosis.versions()}
    assert found["jax"].value == metadata.version("jax") and not found["jax"].remedy
    monkeypatch.setattr(metadata, "requires", lambda _: ["jax>=99", "nowhere<2", 'x; extra == "a"'])
    found = {finding.name: finding for finding in diagnosis.versions()}
    assert found["jax"].remedy == '>=99 is tested: pip install "jax>=99"'
    assert (found["nowhere"].value, "x" in found) == ("not installed", False)


def test_a_fault_of_the_compiler_that_is_not_avoided_is_a_problem(monkeypatch):
    fault = compiler_faults.Fault("it is wrong", "a report", "option", "1")
    faults = {metadata.version("jaxlib"): fault}
    monkeypatch.setattr(compiler_faults, "FAULTS", faults)
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(compiler_faults, "present", lambda: fault)
    assert next(diagnosis.faults()).remedy.startswith("it is wrong (a report); set XLA_FLAGS")
    monkeypatch.setattr(compiler_faults, "present", lambda: None)
    assert not next(diagnosis.faults()).remedy


@pytest.mark.parametrize(
    ("variables", "is_problem"),
    [({}, True), ({"JAX_PLATFORMS": "cpu"}, False), ({"CUDA_VISIBLE_DEVICES": ""}, False)],
)
def test_a_gpu_without_jax_is_a_problem_unless_it_was_left_out(variables, is_problem, monkeypatch):
    monkeypatch.setattr(diagnosis.shutil, "which", lambda name: f"/bin/{name}")
    for name in ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (found,) = (finding for finding in diagnosis.devices() if finding.name == "GPU")
    assert found.value.startswith("/bin/nvidia-smi exists") and bool(found.remedy) == is_problem


def test_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("BAHDANAU_DATA", str(tmp_path / "gone"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/a").write_bytes(bytes(2**20))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    found = {finding.name: finding for finding in diagnosis.folders()}
    assert found["BAHDANAU_DATA"].remedy.startswith("set BAHDANAU_DATA")
    assert found["TMPDIR"].remedy.startswith("set TMPDIR")
    assert found["compiled programs"].value.endswith("1 files, 1 MiB")
    assert not found["temporary files"].remedy


def test_the_command(command_line, monkeypatch):
    code, out, err = command_line("doctor")
    assert (code, err) == (0, "") and "two updates, float32" in out
    problem = diagnosis.Finding("a thing", "broken", "mend it")
    monkeypatch.setattr(diagnosis, "CHECKS", (lambda: iter([problem]),))
    code, out, err = command_line("doctor")
    assert code == 2 and "a thing" in out and err == "bahdanau: 1 problem: a thing: mend it\n"


def doctor(**environment) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bahdanau_jax", "doctor"]
    environment = {**os.environ, "PYTHONPATH": str(small.ROOT), **environment}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_a_platform_that_jax_does_not_have_is_a_problem():
    found = doctor(JAX_PLATFORMS="nosuch")
    assert found.returncode == 2 and "Traceback" not in found.stderr
    assert "set JAX_PLATFORMS=cpu, or install its plugin" in found.stderr
    assert "two updates" not in found.stdout


def test_a_wrong_flag_of_xla_is_a_problem():
    found = doctor(XLA_FLAGS="--xla_nonsense=1")
    assert found.returncode == 2 and "correct or unset XLA_FLAGS" in found.stderr
    assert "--xla_nonsense=1" in found.stdout and "temporary files" in found.stdout
    assert "two updates" not in found.stdout


@pytest.mark.parametrize(("seconds", "is_problem"), [(0.0, False), (20.0, True)])
def test_a_search_for_devices_has_a_time_limit(monkeypatch, tmp_path, seconds, is_problem):
    """A program stands in for a Python in which the driver waits."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nexec sleep {seconds}\n")
    program.chmod(0o755)
    monkeypatch.setattr(diagnosis.sys, "executable", str(program))
    monkeypatch.setattr(diagnosis, "PATIENCE", 1.0 if is_problem else 60.0)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    diagnosis._fault_of_start.cache_clear()
    try:
        first = next(diagnosis.devices())
    finally:
        diagnosis._fault_of_start.cache_clear()
    assert ("for more than 1 s" in first.value) == is_problem == bool(first.remedy)


@pytest.mark.parametrize("cache", ["file", "file/below", "/proc/below"])
def test_a_cache_that_can_not_be_written_is_a_problem(cache, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / cache))
    found = {finding.name: finding for finding in diagnosis.folders()}
    assert found["compiled programs"].remedy.startswith("make ")


def test_a_package_that_cannot_be_imported_is_a_problem(tmp_path):
    (tmp_path / "optax.py").write_text("raise ModuleNotFoundError('it is broken')")
    found = doctor(PYTHONPATH=f"{tmp_path}{os.pathsep}{small.ROOT}")
    assert found.returncode == 2 and "Traceback" not in found.stderr
    assert "ok      jax " in found.stdout and "self test: install what is missing" in found.stderr


def test_a_jaxlib_that_does_not_fit_is_a_problem(tmp_path):
    (tmp_path / "jax.py").write_text("raise RuntimeError('jaxlib is too old\\nfor this jax')")
    found = doctor(PYTHONPATH=f"{tmp_path}{os.pathsep}{small.ROOT}")
    assert found.returncode == 2 and "Traceback" not in found.stderr
    assert f"ok      jaxlib                  {metadata.version('jaxlib')}" in found.stdout
    assert "cannot be made: RuntimeError: jaxlib is too old\n" in found.stdout


def test_a_self_test_that_fails_on_the_device_is_a_problem(monkeypatch):
    def fail(compute_dtype):
        raise jax.errors.JaxRuntimeError("INTERNAL: no cuDNN\nmore")

    monkeypatch.setattr(known_updates, "updates", fail)
    (problem,) = (finding for finding in diagnosis.diagnose() if finding.remedy)
    assert problem.name == "self test"
    assert problem.value == "cannot be made: JaxRuntimeError: INTERNAL: no cuDNN"


def test_a_compiled_program_that_vanishes_is_no_problem(monkeypatch, tmp_path):
    (tmp_path / "a").write_bytes(bytes(2**20))
    listed = [tmp_path / "gone", tmp_path / "a"]
    monkeypatch.setattr(diagnosis.Path, "rglob", lambda *_: iter(listed))
    monkeypatch.setattr(diagnosis.Path, "is_file", lambda _: True)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    assert next(diagnosis.folders()).value.endswith("1 files, 1 MiB")


def test_the_model_of_the_self_test_has_every_part_of_the_paper():
    settings = known_updates.SELF_TEST.model
    sizes = {name: getattr(settings, name) for name in SIZES}
    assert settings == dataclasses.replace(ModelConfig(), **sizes)


SIZES = (
    *("source_vocabulary", "target_vocabulary", "embedding_size", "hidden_size"),
    *("alignment_size", "readout_size"),
)
