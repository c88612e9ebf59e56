"""Exit codes and messages: 0, or 2 with one line for what the user can correct, or a traceback."""

import gc
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest

from bahdanau_jax.cli import jax_defaults
from bahdanau_jax.cli import main as cli


def bahdanau(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "bahdanau_jax", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            f"no command given; one of {', '.join(cli.COMMANDS)}, or --help",
        ),
        (["trian"], "no command 'trian'; did you mean train?"),
        (
            ["xyz"],
            f"no command 'xyz'; the commands are {', '.join(cli.COMMANDS)}",
        ),
        (["translate"], "missing: --run (bahdanau translate --help)"),
        (["translate", "--rum", "x"], "no option --rum; did you mean --run?"),
        (["train"], "missing: CONFIG, --workdir (bahdanau train --help)"),
        (
            ["train", "primes", "--workdir", ""],
            "--workdir is empty, but should be a path; . is the current folder",
        ),
        (
            ["translate", "--run="],
            "--run is empty, but should be a path; . is the current folder",
        ),
        (
            ["align", "--reverse_run", ""],
            "--reverse_run is empty, but should be a path; . is the current folder",
        ),
        (["completion"], "missing: SHELL (bahdanau completion --help)"),
        (["reproduce"], "missing: SUITE, --workdir (bahdanau reproduce --help)"),
        (["train", "x", "--wokdir", "y"], "no option --wokdir; did you mean --workdir?"),
        (["train", "x", "y"], "missing: --workdir (bahdanau train --help)"),
        (
            ["train", "x", "--workdir", "y", "--model.hiden-size", "3"],
            "no option --model.hiden-size; did you mean --model.hidden-size?",
        ),
        (
            ["train", "x", "--workdir", "y", "--name", "adam"],
            "no option --name; did you mean --optimizer.name?",
        ),
        (
            ["train", "x", "--workdir", "y", "--hidden_size=3"],
            "no option --hidden_size; did you mean --model.hidden-size?",
        ),
        (
            ["train", "x", "--workdir", "y", "--lr", "1"],
            "no option --lr; did you mean --optimizer.learning-rate?",
        ),
        (
            ["train", "x", "--workdir", "y", "--vocab-size", "9"],
            "no option --vocab-size; did you mean --data.source-vocabulary-size or "
            "--data.target-vocabulary-size?",
        ),
        (
            ["train", "x", "--optimizer", "adam"],
            "no option --optimizer; did you mean --optimizer.name?",
        ),
        (["train", "x", "--epochs=3"], "no option --epochs; did you mean --training.steps?"),
        (["train", "x", "--hlp"], "no option --hlp; see bahdanau train --help"),
        (["train", "x", "---", "3"], "no option ---; see bahdanau train --help"),
        (["translate", "--beam", "3"], "no option --beam; did you mean --beam-size?"),
        (
            ["train", "x", "--workdir", "y", "--model.hidden-size", "many"],
            "Error parsing --model.hidden-size: invalid literal for int() with base 10: 'many'"
            " (bahdanau train --help)",
        ),
        (
            ["train", "x", "--workdir", "y", "--model.gate-bias", "maybe"],
            "invalid choice 'maybe' for argument '--model.gate-bias'."
            " Expected one of ('True', 'False'). (bahdanau train --help)",
        ),
        (
            ["train", "x", "--workdir", "y", "--model.cell"],
            "Missing value for argument '--model.cell'. Expected 1 value. (bahdanau train --help)",
        ),
        (
            ["train", "x", "--workdir", "y", "z"],
            "Unrecognized options: z (bahdanau train --help)",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line(call, arguments, message):
    assert call(*arguments) == (2, "", f"bahdanau: {message}\n")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("model.hidden_size is 0"), "bahdanau: model.hidden_size is 0\n"),
        (ValueError("one fault\nanother\n"), "bahdanau: one fault\nbahdanau: another\n"),
        (FileNotFoundError(2, "No such file", "a.en"), "bahdanau: a.en: No such file\n"),
        (OSError("no space"), "bahdanau: no space\n"),
        (ValueError(), "bahdanau: ValueError\n"),
    ],
)
def test_what_the_user_can_mend_exits_2(call, run, monkeypatch, error, message):
    def load(folder, **how):
        raise error

    run.load = load
    assert call("translate", "--run", "x") == (2, "", message)
    monkeypatch.setenv("BAHDANAU_TRACEBACK", "1")
    with pytest.raises(type(error)):
        call("translate", "--run", "x")


def test_a_fault_of_the_program_keeps_its_traceback(call, run):
    def load(folder, **how):
        raise KeyError("W_z")

    run.load = load
    with pytest.raises(KeyError):
        call("translate", "--run", "x")


def test_an_error_about_arrays_keeps_its_traceback():
    code = (
        "import sys, types; import bahdanau_jax; from bahdanau_jax.cli.main import main\n"
        "from bahdanau_jax import run_folder\n"
        "run_folder.check_run = print\n"
        "def load(folder, **how):\n"
        "    import jax, jax.numpy as jnp\n"
        "    return jax.vmap(jnp.add)(jnp.zeros(2), jnp.zeros(3))\n"
        "run = bahdanau_jax.trained = types.ModuleType('bahdanau_jax.trained'); run.load = load\n"
        "sys.modules['bahdanau_jax.trained'] = run\n"
        "sys.exit(main(['translate', '--run', 'x']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "\nValueError: " in done.stderr


@pytest.mark.parametrize("platform", [pytest.param("nosuch", marks=pytest.mark.slow), "rocm"])
def test_a_platform_without_a_device_is_one_line(tmp_path, platform):
    environment = {**os.environ, "JAX_PLATFORMS": platform}
    found = bahdanau("train", "primes", "--workdir", tmp_path / "run", env=environment)
    assert found.returncode == 2 and found.stderr.count("\n") == 1
    assert "JAX finds no device: set JAX_PLATFORMS=cpu" in found.stderr


@pytest.mark.slow
def test_a_run_is_not_called_damaged_where_there_is_no_device(trained):
    environment = {**os.environ, "JAX_PLATFORMS": "rocm"}
    found = bahdanau("translate", "--run", trained[0], input="the man\n", env=environment)
    assert found.returncode == 2 and found.stderr.count("\n") == 1
    assert "JAX finds no device: set JAX_PLATFORMS=cpu" in found.stderr


def test_ctrl_c_leaves_quietly(call, run):
    def load(folder, **how):
        raise KeyboardInterrupt

    run.load = load
    assert call("translate", "--run", "x") == (130, "", "bahdanau: interrupted\n")


def test_a_missing_file_is_the_users_wherever_it_is_opened(capfd, tmp_path):
    assert cli.main(["any"], lambda _: np.load(tmp_path / "a.npy")) == 2
    assert capfd.readouterr().err == f"bahdanau: {tmp_path}/a.npy: No such file or directory\n"


@pytest.mark.parametrize("code", [None, 0, 3, "no"])
def test_a_users_code_that_ends_the_program_is_no_success(code, capfd):
    assert cli.main(["any"], lambda _: sys.exit(code)) == 2
    told = f"bahdanau: code of this run ended the program: SystemExit: {code}\n"
    assert capfd.readouterr().err == told


def test_what_was_saved_is_said_after_ctrl_c(capfd):
    def dispatch(arguments):
        raise KeyboardInterrupt("runs/sweep is saved: run it again to go on")

    assert cli.main(["sweep"], dispatch) == 130
    assert capfd.readouterr().err == "bahdanau: runs/sweep is saved: run it again to go on\n"


def test_help_is_complete_and_quick_to_make():
    code = (
        "import sys; from bahdanau_jax.cli.main import main; main(['--help']);"
        "heavy = {'jax', 'flax', 'tensorflow', 'matplotlib', 'orbax'} & set(sys.modules);"
        "print('heavy:', heavy, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert all(f"  {name} " in done.stdout for name in cli.COMMANDS)
    assert done.stderr == "heavy: set()\n"


@pytest.mark.parametrize("command", ["train", "prepare", "translate", "evaluate"])
def test_help_of_a_command_names_each_option_with_a_sentence(call, command):
    code, out, err = call(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert f"usage: bahdanau {command}" in out
    options = [line for line in out.splitlines() if line.startswith("  --")]
    assert options
    for expected in ("--run", "--workdir"):
        assert (expected in out) == (expected == HELP.get(command))


def test_help_needs_no_jax():
    code = (
        "import sys; from bahdanau_jax.cli.main import main;"
        "[main([*command.split(), '--help', 'all']) for command in"
        " ('train', 'launch', 'translate', 'align', 'evaluate', 'checkpoints')];"
        "heavy = {'jax', 'flax', 'tensorflow', 'matplotlib', 'orbax', 'optax'} & set(sys.modules);"
        "print('heavy:', heavy, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "heavy: set()\n"


HELP = {"train": "--workdir", "prepare": "--workdir", "translate": "--run", "evaluate": "--run"}


@pytest.mark.parametrize("arguments", [["--help"], ["translate", "--help"], ["train", "--help"]])
def test_a_closed_pipe_is_no_error(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "bahdanau_jax", *arguments],
            stdout=closed,
            env=buffered,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (141, "")


def answering(statement: str, closed: str = "", **options) -> subprocess.CompletedProcess:
    """Run a statement as a command in a process; `closed` are redirections that close streams."""
    code = (
        "import sys; from bahdanau_jax.cli import main as cli\n"
        f"cli._dispatch = lambda arguments: {statement}\n"
        "sys.exit(cli.main())"
    )
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60} | options
    shell = ["sh", "-c", f'exec "$0" "$@" {closed}']
    return subprocess.run([*shell, sys.executable, "-c", code], text=True, **options)


@pytest.mark.parametrize(
    "statement", ["print('x')", "print('x' * 100_000)", "sys.stdout.buffer.write(b'x') and None"]
)
def test_output_without_space_is_one_line_and_exits_2(statement):
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = answering(statement, stdout=full, env=buffered)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith("bahdanau: no space is left on the device of the output")
        assert answering(statement, stdout=full, stderr=full, env=buffered).returncode == 2


SAY = "__import__('bahdanau_jax.reporting').reporting.say('a message') or print('x')"


def test_a_closed_or_full_stderr_changes_nothing_else():
    done = answering(SAY, closed="2>&-")
    assert (done.returncode, done.stdout) == (0, "x\n")
    with open("/dev/full", "w") as full:
        done = answering(SAY, stderr=full)
    assert (done.returncode, done.stdout) == (0, "x\n")
    missing = "exec('raise FileNotFoundError')"
    done = answering(missing, closed="2>&-")
    assert (done.returncode, done.stdout) == (2, "")


def test_no_file_gets_the_number_of_a_closed_stderr(tmp_path):
    """Libraries write their messages to descriptor 2, whatever file it is."""
    path = tmp_path / "results"
    code = f"import os; kept = open({str(path)!r}, 'w'); os.write(2, b'x')"
    statement = f"exec({code!r})"
    done = answering(statement, closed="2>&-")
    assert (done.returncode, path.read_text()) == (0, "")


def test_characters_that_the_output_cannot_encode_are_escaped():
    done = answering(
        "print('d\u00e9j\u00e0 \\udcff')", env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "d\\xe9j\\xe0 \\udcff\n", "")


def test_a_process_says_one_line_and_exits_2():
    done = bahdanau("train", "no-such-config", "--workdir", "x")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("bahdanau: no-such-config: no such configuration file; ")


def test_version(call, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"{name} 1.2")
    assert call("--version") == (0, "bahdanau-jax 1.2\n", "")


def test_lapack_has_one_thread_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    jax_defaults.apply()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "3"
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    jax_defaults.apply()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((700, 10, 10), (10_000, 10, 10)),
        ((0, 5, 5), (0, 5, 5)),
        ((50_000, 5, 5), (50_000, 5, 5)),
    ],
)
def test_garbage_is_collected_rarely_unless_the_collector_is_off(before, after):
    own = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        jax_defaults.apply()
        assert gc.get_threshold() == after
    finally:
        gc.set_threshold(*own)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's mallopt is that of Linux")
def test_child_processes_keep_their_memory_too(monkeypatch):
    monkeypatch.setenv("MALLOC_TOP_PAD_", "0")
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    called = []
    library = SimpleNamespace(mallopt=lambda parameter, value: called.append(parameter))
    monkeypatch.setattr(jax_defaults.ctypes, "CDLL", lambda _: library)
    jax_defaults.apply()
    assert -4 in called and -2 not in called
    assert os.environ["MALLOC_MMAP_MAX_"] == "0"
    assert os.environ["MALLOC_TOP_PAD_"] == "0"  # that of the environment, where it is set


def test_a_user_without_a_home_has_a_private_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = jax_defaults.cache_folder()
    assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700
    assert jax_defaults.cache_folder() == folder
    folder.chmod(0o777)  # another user could write programs into it
    assert jax_defaults.cache_folder() != folder


def test_the_cache_of_programs_has_a_place_and_yields_to_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    jax_defaults.apply()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine"
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax_defaults.apply()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "bahdanau_jax")
