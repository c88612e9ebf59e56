"""Strict settings for every test: one CPU, no implicit rank promotion, checked shapes.

Warnings are errors, with the exceptions named in pyproject.toml.
"""

import fcntl
import gc
import importlib.util
import os
import pickle
import signal
import tempfile
from pathlib import Path

from tests import quick

# A job that a shell starts in the background ignores Ctrl-C, and so would the programs under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tracing makes many objects, all of which would be looked through every 70,000.
gc.set_threshold(50_000, 10, 10)

# JAX reads these when it is first imported, which is after this file.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
if named := os.environ.get("BAHDANAU_TESTS_CACHE"):  # which several calls of pytest share
    os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.abspath(named)
elif "PYTEST_XDIST_WORKER" not in os.environ:  # it shares that of the process that started it
    _CACHE = tempfile.TemporaryDirectory(prefix="jax-cache-")  # of compiled programs
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _CACHE.name
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ.setdefault("XLA_FLAGS", quick.XLA_FLAGS)

from bahdanau_jax import compiler_faults  # noqa: E402

compiler_faults.avoid()  # as the command line does

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

if importlib.util.find_spec("beartype"):
    # Every call checks the shapes in its signature; only here, for it costs time.
    install_import_hook("bahdanau_jax.model", "beartype.beartype")

# The first example compiles, the others do not: a time limit for each would be chance.
hypothesis.settings.register_profile(
    "jax", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("jax")


@pytest.fixture(scope="module", autouse=True)
def _forget_programs():
    """Clear compiled programs: each holds memory maps, whose number the system limits."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of the real corpora; tests that need it are skipped where it is absent."""
    named = os.environ.get("BAHDANAU_DATA", "")
    if not named:
        pytest.skip("BAHDANAU_DATA is not set: it names the folder of the real corpora")
    if not Path(named).is_dir():
        pytest.skip(f"BAHDANAU_DATA is {named}, which is no folder")
    return Path(named)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """(a run folder that `bahdanau train` made, the finished process); to change it, copy it.

    Processes that share the tests share it.
    """
    from tests import small

    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    workdir, kept = folder / "trained" / "run", folder / "trained.pickle"
    with open(folder / "trained.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            workdir.parent.mkdir()
            done = small.bahdanau(*small.train(workdir))
            assert done.returncode == 0, done.stderr
            kept.write_bytes(pickle.dumps(done))
    return workdir, pickle.loads(kept.read_bytes())


@pytest.fixture
def one_of_two(monkeypatch):
    """Lets the program take this process for one of two: `one_of_two(index)`."""
    from bahdanau_jax.distributed import processes

    def pretend(index):
        monkeypatch.setattr(processes, "_may_have_others", lambda: True)
        monkeypatch.setattr(jax, "process_count", lambda: 2)
        monkeypatch.setattr(jax, "process_index", lambda: index)

    return pretend


def _runner(main, capfd):
    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def command_line(capfd):
    """Runs a command line of bahdanau in this process: (exit code, stdout, stderr)."""
    from bahdanau_jax.cli.main import main

    return _runner(main, capfd)


@pytest.fixture
def benchmark(capfd):
    """Runs a command line of the benchmarks in this process: (exit code, stdout, stderr)."""
    from benchmarks.__main__ import main

    return _runner(main, capfd)
