"""The benchmark of an accelerator: its parts, its time limit, its failures and its file."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import accelerator_benchmark, accelerator_parts, accelerator_plan
from benchmarks.accelerator_parts import Part, ask_each
from benchmarks.accelerator_plan import COMPILER, QUICK
from benchmarks.peers import serving
from benchmarks.peers.process import Failure, Peer, TimeLimit
from tests import small

# A program that answers as the benchmark's programs do, and ends or waits at some cases.
PROGRAM = (
    f"""
import json, os, sys, time
sys.path.insert(0, {str(Path(serving.__file__).parent)!r})
import serving
serving.end_with_parent()
"""
    + """
print(json.dumps({"threads": 2, "process": os.getpid()}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "compile":
        if any(case["number"] == 6 for case in request["cases"]):
            raise MemoryError("number 6 is too large to compile")
        print(json.dumps({"seconds": 0.0}), flush=True)
    elif request["number"] == 2:
        raise MemoryError("number 2 is too large")
    elif request["number"] == 5:
        time.sleep(600)
    else:
        print(json.dumps({"square": request["number"] ** 2}), flush=True)
"""
)


def part(seconds: float) -> Part:
    return Part({}, lambda: None, time.monotonic() + seconds)


def started(program: str = PROGRAM):
    return lambda seconds: Peer("squares", [sys.executable, "-c", program], seconds)


def ask(peer, case):
    return peer.ask(do="time", **case)


def asked(this: Part, numbers, program: str = PROGRAM) -> None:
    ask_each(this, started(program), [{"number": n} for n in numbers], ask, {"label": "x"})


def test_a_case_that_ends_the_program_leaves_the_others_measured():
    this = part(60)
    asked(this, [1, 2, 3, 4])
    squares = {figure["number"]: figure.get("square") for figure in this.results["figures"]}
    assert squares == {1: 1, 2: None, 3: 9, 4: 16}
    (failed,) = [figure for figure in this.results["figures"] if "failed" in figure]
    assert failed["label"] == "x"
    assert failed["failed"] == "squares ended; last error: MemoryError: number 2 is too large"
    assert "left_out" not in this.results


def test_a_case_whose_compilation_ends_the_program_leaves_its_group_measured():
    this = part(60)
    asked(this, [1, 6, 3, 4])
    squares = {figure["number"]: figure.get("square") for figure in this.results["figures"]}
    assert squares == {1: 1, 6: None, 3: 9, 4: 16}
    (failed,) = [figure for figure in this.results["figures"] if "failed" in figure]
    assert failed["failed"].endswith("MemoryError: number 6 is too large to compile")


def test_a_program_that_starts_only_once_fails_in_the_cases_that_are_left():
    this, left = part(60), [started()]

    def start(seconds):
        return (left.pop() if left else started("raise OSError('no cake')"))(seconds)

    ask_each(this, start, [{"number": n} for n in (1, 6, 3)], ask)
    assert [figure["number"] for figure in this.results["figures"]] == [1, 6, 3]
    assert all("no cake" in figure["failed"] for figure in this.results["figures"])


def test_cases_beyond_the_time_are_left_out(monkeypatch):
    monkeypatch.setattr(accelerator_parts, "LEAST_SECONDS", 0.0)
    this, start = part(8), time.monotonic()
    asked(this, [1, 5, 8])
    assert time.monotonic() - start < 30  # and not the 600 s of number 5
    assert [figure["number"] for figure in this.results["figures"]] == [1]
    over = {"reason": "the time of this part was over"}
    assert this.results["left_out"] == [{"label": "x", "number": n, **over} for n in (5, 8)]
    asked(this, [7])
    assert this.results["left_out"][-1]["number"] == 7


class Device:
    """Stands in for a program: its groups take 30 s by its own word, or its cases by the clock."""

    def __init__(self, threads=0, wait=lambda: None):
        self.greeting, self._wait = {"threads": threads}, wait

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self, do, **case):
        if do == "compile":
            return {"seconds": 30.0}
        self._wait()
        return {"square": case["number"] ** 2}


def test_a_group_that_would_take_too_long_is_not_begun():
    """1.2 times the last one and 5 s are 41 s, and 40 are left: also for the next program."""
    this, cases = part(40), [{"number": n} for n in (1, 2, 3)]
    ask_each(this, lambda seconds: Device(threads=2), cases, ask)
    assert [figure["square"] for figure in this.results["figures"]] == [1, 4]
    (left,) = this.results["left_out"]
    assert left["number"] == 3 and left["reason"].endswith(
        "s were left, and the last group took 30"
    )
    ask_each(this, lambda seconds: pytest.fail("it was started"), cases[:1], ask)
    assert this.results["left_out"][-1]["number"] == 1


def test_a_case_alone_that_would_take_too_long_is_not_begun(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def wait():
        now[0] += 25

    this = part(80)
    cases = [{"number": n} for n in (1, 2, 3)]
    ask_each(this, lambda seconds: Device(wait=wait), cases, ask)
    assert [figure["square"] for figure in this.results["figures"]] == [1, 4]
    reason = "30 s were left, and the last group took 25"
    assert this.results["left_out"] == [{"number": 3, "reason": reason}]


@pytest.fixture
def programs(monkeypatch):
    """The variables of each program that a part starts, instead of the program."""
    started = []

    def peer(name, command, seconds, environment):
        started.append(environment)
        raise TimeLimit(name, "was stopped", "")

    monkeypatch.setattr(accelerator_parts, "Peer", peer)
    return started


def measured(name: str, folder: Path) -> dict:
    this = part(600)
    request = accelerator_plan.Request(folder, folder, None, None)
    accelerator_benchmark.PARTS[name].measure(this, request, QUICK)
    return this.results


@pytest.mark.parametrize(
    ("given", "expected"), [("cuda", "cuda,cpu"), ("cuda,cpu", None), ("", None), ("cpu", None)]
)
def test_comparisons_compile_soon_and_find_the_cpu(
    programs, monkeypatch, tmp_path, given, expected
):
    monkeypatch.setenv("JAX_PLATFORMS", given)
    monkeypatch.setenv("XLA_FLAGS", "--one=1")
    results = measured("correctness", tmp_path)
    assert results["added_xla_flags"] == accelerator_plan.SOON
    (variables,) = programs
    assert variables["XLA_FLAGS"] == f"--one=1 {accelerator_plan.SOON}"
    assert variables.get("JAX_PLATFORMS") == expected


def test_programs_share_a_folder_with_those_of_the_same_flags_alone(
    programs, monkeypatch, tmp_path
):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/programs")
    for name in ("training", "profile"):
        measured(name, tmp_path)
    folders = [variables["JAX_COMPILATION_CACHE_DIR"] for variables in programs]
    assert all(Path(folder).parent == Path("/programs") for folder in folders)
    default, setting, profile = folders
    assert default == profile != setting


def test_the_most_useful_settings_come_first():
    first, second, *_, last = COMPILER
    assert (first, second, last) == ("default", "products by libraries", "loops in command buffers")


def test_a_training_that_would_come_to_no_evaluation_is_left_out(tmp_path):
    run = accelerator_benchmark.run
    summary = run(tmp_path / "out", minutes=2.0, parts=["learning"], config=small.config)
    (line,) = summary["parts"]["learning"]["left_out"]
    said = " s were left, and this part needs at least 150; its first evaluation comes after"
    assert said in line and line.endswith("choose --parts learning and more time")


@pytest.mark.parametrize("code", [0, 9])
def test_the_file_has_the_circumstances(parts, monkeypatch, tmp_path, code):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho 'name, driver_version'\necho $1\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("XLA_FLAGS", "--one=1")
    parts()
    accelerator_benchmark.run(tmp_path / "out")
    results = json.loads((tmp_path / "out" / "accelerator.json").read_text())
    assert results["environment"]["XLA_FLAGS"] == "--one=1"
    assert "PATH" not in results["environment"]
    assert results["gpus"] == [
        "name, driver_version",
        "--query-gpu=name,driver_version,clocks.max.sm",
    ]
    assert results["git"] is None or set(results["git"]) == {"commit", "changed"}
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    accelerator_benchmark.run(tmp_path / "other")
    assert json.loads((tmp_path / "other" / "accelerator.json").read_text())["gpus"] is None


def test_a_program_that_does_not_start_fails_in_each_case():
    this = part(60)
    asked(this, [1, 3], "raise OSError('no cake')")
    said = "squares ended; last error: OSError: no cake"
    assert [figure["failed"] for figure in this.results["figures"]] == [said, said]


def test_a_program_is_stopped_at_its_limit():
    with pytest.raises(TimeLimit, match="squares was stopped at its time limit"):
        Peer("squares", [sys.executable, "-c", "import time; time.sleep(600)"], 0.2)
    with started()(60) as peer:
        assert ask(peer, {"number": 3}) == {"square": 9}
        with pytest.raises(Failure) as caught:
            ask(peer, {"number": 2})
        assert not isinstance(caught.value, TimeLimit)


@pytest.fixture
def parts(monkeypatch):
    """Replaces the parts of the benchmark: {name: (function, share)}."""

    def replace(**chosen):
        table = {name: accelerator_benchmark.Measured(*given) for name, given in chosen.items()}
        monkeypatch.setattr(accelerator_benchmark, "PARTS", table)

    return replace


def test_a_part_that_fails_is_recorded_and_the_next_one_has_its_time(parts, tmp_path):
    limits = {}

    def broken(this, request, scale):
        limits["broken"] = this.left()
        this.add({"case": 1}, {"passed": True})
        raise KeyError("no cake")

    def whole(this, request, scale):
        limits["whole"] = this.left()
        this.add({"case": 1}, {"passed": False})
        kept = json.loads((tmp_path / "out" / "accelerator.json").read_text())
        assert kept["parts"]["broken"]["failed"] == "KeyError: 'no cake'"

    parts(broken=(broken, 1.0), whole=(whole, 3.0))
    summary = accelerator_benchmark.run(tmp_path / "out", minutes=1.0)
    found = json.loads(Path(summary["results"]).read_text())["parts"]
    assert found["broken"]["figures"] == [{"case": 1, "passed": True}]
    assert 10 < limits["broken"] <= 12.5  # a quarter of what is left of a minute
    assert 45 < limits["whole"] <= 50  # all the rest
    assert summary["parts"]["whole"]["failed_figures"] == [{"case": 1, "passed": False}]


def test_a_part_that_cannot_be_measured_takes_no_time(parts, tmp_path):
    limits = {}

    def whole(this, request, scale):
        limits["whole"] = this.left()

    parts(whole=(whole, 1.0), learning=(whole, 3.0))  # a training needs --train
    accelerator_benchmark.run(tmp_path / "out", minutes=1.0)
    assert 45 < limits["whole"] <= 50


def test_full_products_come_after_the_options_of_the_compiler(monkeypatch, tmp_path):
    order = []

    def ask_each(part, start, cases, ask, label):
        order.append((label["compiler"], {case["precision"] for case in cases}))

    monkeypatch.setattr(accelerator_parts, "ask_each", ask_each)
    request = accelerator_plan.Request(tmp_path, tmp_path, None, None)
    part = accelerator_parts.Part({}, lambda: None, time.monotonic() + 60)
    accelerator_parts.training(part, request, accelerator_plan.FULL)
    assert order[0] == ("default", {"bfloat16", "tf32"})
    assert [name for name, _ in order[1:-1]] == [name for name in COMPILER if name != "default"]
    assert order[-1] == ("default", {"bfloat16", "tf32", "float32"})


def test_limits_that_cannot_be_measured_cost_one_case(monkeypatch, tmp_path):
    asked, given = [], []

    class Device:
        def ask(self, do, **case):
            asked.append(do)
            if do == "limits":
                raise Failure("device_updates", "ended", "no memory")
            return {"seconds": 1.0}

    def ask_each(part, start, cases, ask, label):
        given.append(ask)

    monkeypatch.setattr(accelerator_parts, "ask_each", ask_each)
    part = accelerator_parts.Part({}, lambda: None, time.monotonic() + 60)
    request = accelerator_plan.Request(tmp_path, tmp_path, None, None)
    accelerator_parts.training(part, request, QUICK)
    with pytest.raises(Failure):
        given[0](Device(), {"batch": 1})
    assert given[0](Device(), {"batch": 1}) == {"seconds": 1.0}
    assert asked == ["limits", "time"]


def test_a_part_without_time_is_left_out_with_a_line(benchmark, tmp_path):
    code, out, err = benchmark("accelerator", "--output", tmp_path / "out", "--minutes", "0.2")
    summary = json.loads(out)
    assert code == 0 and "correctness: left out, 0 s were left" in err
    found = json.loads((tmp_path / "out" / "accelerator.json").read_text())["parts"]
    assert list(found) == list(summary["parts"]) == list(accelerator_benchmark.PARTS)
    assert all(part["left_out"] for part in found.values())
    assert "no --train was given" in found["learning"]["left_out"][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--minutes", "0"], "--minutes is 0.0, but should be a number above 0"),
        (["--parts", "trainin"], "no part 'trainin'; known: correctness, decoding, learning"),
        (["--batches", "0"], "--batches is '0', but should be like"),
        (["--precisions", "float16"], "no precision 'float16'; known: bfloat16, float32, tf32"),
        (["--settings", "fast"], "no setting of the compiler 'fast'; known: default, loops in"),
        (["--dev", "text:a,b"], "--dev has no meaning without --train"),
        (["--config", "primes"], "--config has no meaning without --train"),
        (["--train", "builtin:reverse/train", "--config", "nowhere"], "nowhere: no such config"),
        (["--torch-python", "/no/python"], "/no/python is not an executable file"),
        (["--output", "used"], "accelerator.json exists already: name another --output"),
    ],
)
def test_wrong_arguments_are_said_in_a_line(benchmark, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "accelerator.json").write_text("{}")
    code, out, err = benchmark("accelerator", "--output", "new", *arguments)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[-1] and "Traceback" not in err
    assert not (tmp_path / "new").exists()


KILLED = """
import sys, time
from pathlib import Path
from benchmarks import accelerator_benchmark
from tests.benchmarks.test_accelerator_benchmark import ask_each, ask, started

def squares(part, request, scale):
    ask_each(part, started(), [{"number": n} for n in (1, 3, 5)], ask)

accelerator_benchmark.PARTS = {"squares": accelerator_benchmark.Measured(squares, 1.0)}
accelerator_benchmark.run(Path(sys.argv[1]), minutes=5.0)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_kill_leaves_what_was_measured_and_no_program(tmp_path):
    results = tmp_path / "out" / "accelerator.json"
    environment = {**os.environ, "PYTHONPATH": str(small.ROOT)}
    command = [sys.executable, "-c", KILLED, str(results.parent)]

    def figures():
        if not results.exists():
            return []
        parts = json.loads(results.read_text())["parts"]  # whole at any time
        return parts.get("squares", {}).get("figures", [])

    with subprocess.Popen(command, env=environment, cwd=small.ROOT) as running:
        until = time.monotonic() + 60
        while len(figures()) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
    assert [figure["square"] for figure in figures()] == [1, 9]
    program = json.loads(results.read_text())["parts"]["squares"]["program"]["process"]
    while is_running(program) and time.monotonic() < until:  # it is in the middle of a case
        time.sleep(0.05)
    assert not is_running(program)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(exit code, summary, results, folder) of the whole command with tiny sizes."""
    folder = tmp_path_factory.mktemp("accelerator") / "out"
    program = tmp_path_factory.mktemp("torch") / "python"
    program.write_text("#!/bin/sh\necho 'ImportError: no torch' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    command = [sys.executable, "-m", "benchmarks", "accelerator", "--output", str(folder)]
    command += ["--quick", "True", "--minutes", "60", "--torch-python", str(program)]
    command += ["--config", str(small.FILE), "--train", small.config.data.train]
    done = subprocess.run(command, capture_output=True, text=True, cwd=small.ROOT)
    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "accelerator.json").read_text())
    return json.loads(done.stdout), results, folder, done.stderr


@pytest.mark.exhaustive
def test_every_part_is_measured(whole):
    summary, results, folder, said = whole
    assert [name for name, part in results["parts"].items() if "failed" in part] == []
    assert [name for name, part in results["parts"].items() if "left_out" in part] == []
    correctness = results["parts"]["correctness"]["figures"]
    assert len(correctness) == 2 and all(figure["passed"] for figure in correctness)
    assert "target_words_per_second" in said
    assert {path.name for path in folder.iterdir()} == {
        "accelerator.json",
        "training.metrics.jsonl",
        "update-4.hlo.txt.gz",
        "update-4.trace.json.gz",
    }
    assert summary["parts"]["training"]["failed_figures"] == []


@pytest.mark.exhaustive
def test_training_has_every_batch_precision_and_setting(whole):
    part = whole[1]["parts"]["training"]
    measured = {
        (f["compiler"], f["batch"], f["precision"], f["gradients"]): f for f in part["figures"]
    }
    expected = {
        ("default", batch, precision, "deferred")
        for batch in QUICK.batches
        for precision in QUICK.precisions
    }
    expected |= {("default", 4, "bfloat16", "autodiff")}
    expected |= {("loops in command buffers", 4, "bfloat16", "deferred")}
    assert measured.keys() == expected
    for (_, batch, _, _), figure in measured.items():
        rate = batch * 5 / figure["seconds"]
        assert figure["target_words_per_second"] == pytest.approx(rate, rel=1e-3)
        assert figure["planned_mib"]["all"] > 0 and len(figure["rounds"]) == QUICK.rounds
    assert set(part["limits"]["matrix_gflops"]) == {"float32", "tf32", "bfloat16"}


@pytest.mark.exhaustive
def test_a_profile_names_the_operations_of_the_update(whole):
    (figure,) = whole[1]["parts"]["profile"]["figures"]
    assert 0 < figure["busy_share"] <= 1 and figure["kernels"] > 100
    first, *others = figure["operations"]
    assert all(first["milliseconds"] >= other["milliseconds"] for other in others)
    assert sum(row["share"] for row in figure["kinds"]) <= 1.001


@pytest.mark.exhaustive
def test_searches_write_as_many_words_as_they_may(whole):
    figures = whole[1]["parts"]["decoding"]["figures"]
    assert [(f["precision"], f["beam"]) for f in figures] == [("bfloat16", 1)]
    for figure in figures:
        words = figure["sentences_per_second"] * figure["target_words_per_sentence"]
        assert figure["target_words_per_second"] == pytest.approx(words, rel=0.02)
        assert 0 < figure["target_words_per_sentence"] <= 5


@pytest.mark.exhaustive
def test_a_failing_library_is_recorded_and_the_training_follows(whole):
    parts = whole[1]["parts"]
    assert {figure["failed"] for figure in parts["torch"]["figures"]} == {
        f"{name} ended; last error: ImportError: no torch" for name in ("torch", "torch-cudnn")
    }
    curve = parts["learning"]["figures"]
    assert [point["updates"] for point in curve] == [10, 20, 30]
    assert all(point["bleu"] >= 0 and point["seconds"] > 0 for point in curve)


FLAGS = {**COMPILER, "comparisons": accelerator_plan.SOON}


@pytest.mark.slow
@pytest.mark.parametrize("setting", FLAGS)
def test_the_compiler_knows_each_option(setting):
    """XLA ends the process for a name that it does not know; values are checked by it too."""
    code = "import jax; jax.devices(); print(jax.jit(lambda x: x + 1)(1))"
    environment = {**os.environ, "XLA_FLAGS": FLAGS[setting], "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "2\n", done.stderr
