"""The launcher with stand-in processes: which of them it starts, ends and restarts."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bahdanau_jax.cli import launch_command
from tests import small

# A process in place of bahdanau: train FOLDER [what each attempt does, by process, with commas].
PRETEND = """
import os, pathlib, signal, sys, time
me = os.environ["BAHDANAU_PROCESS_ID"]
_, folder, *attempts = sys.argv[1:]
log = pathlib.Path(folder) / f"log{me}"
with log.open("a") as file:
    file.write(f"{os.getpid()} {os.environ['BAHDANAU_COORDINATOR']}\\n")
attempt = len(log.read_text().splitlines()) - 1
what = attempts[min(attempt, len(attempts) - 1)].split(",")[int(me)]
print("result of", me)
print("[Gloo] Rank 0 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3")
print("message", file=sys.stderr, flush=True)
if what == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if what == "hang":
    signal.signal(signal.SIGTERM, lambda *_: None)
if what == "worker":  # this process and its child continue after SIGTERM
    asked = pathlib.Path(folder, f"asked{me}")
    signal.signal(signal.SIGTERM, lambda *_: asked.touch())
    if pid := os.fork():
        (log.parent / f"log{me}-fork").write_text(str(pid))
if what == "polite":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
if what == "stop":
    pathlib.Path(folder, "stopping").touch()
    os.kill(os.getpid(), signal.SIGSTOP)
if what == "abort":
    while not pathlib.Path(folder, "stopping").exists():
        time.sleep(0.01)
    time.sleep(0.5)
    os.abort()
if what in ("hang", "polite", "worker"):
    pathlib.Path(folder, f"ready{me}").touch()
    while True:
        time.sleep(0.05)
sys.exit(int(what))
"""


MOST = 20.0  # seconds to end all, on a busy machine; the grace is 60 s

# Here other tests may have started JAX in this process; the command itself never does.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


@pytest.fixture
def pretend(monkeypatch, capfd, tmp_path):
    """Run the launcher; return (exit code, stdout, stderr, pids of each process's attempts)."""
    monkeypatch.setattr(launch_command, "PROGRAM", (sys.executable, "-c", PRETEND))

    def run(*attempts, processes=2, options=()):
        code = launch_command.main(
            ["--processes", str(processes), *options, "--", "train", str(tmp_path), *attempts]
        )
        logs = [(tmp_path / f"log{i}").read_text().split()[::2] for i in range(processes)]
        pids = [[int(pid) for pid in log] for log in logs]
        assert not [pid for pid in sum(pids, []) if Path(f"/proc/{pid}").exists()]
        return code, *capfd.readouterr(), pids

    return run


def test_a_file_of_the_current_folder_replaces_no_module(tmp_path):
    """`python -m` alone would put the folder first among those of modules."""
    (tmp_path / "tokenize.py").write_text("raise SystemExit('replaced')\n")
    command = [*launch_command.PROGRAM, "train", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "usage: bahdanau train" in done.stdout, done.stderr


def test_results_pass_and_messages_name_their_process(pretend):
    code, out, err, pids = pretend("0,0")
    assert code == 0
    assert sorted(out.splitlines()) == ["result of 0", "result of 1"]
    assert sorted(err.splitlines()) == ["[0] message", "[1] message"]
    assert [len(each) for each in pids] == [1, 1]


def test_a_killed_process_has_all_started_again(pretend):
    code, _, err, pids = pretend("hang,kill", "0,0")
    assert code == 0
    assert "process 1 was ended by SIGKILL: starting all 2 again (2 restarts left)" in err
    assert [len(each) for each in pids] == [2, 2]


@pytest.mark.slow
def test_a_stopped_process_that_the_others_died_of_is_named(pretend):
    code, _, err, pids = pretend("abort,stop", "0,0")
    assert code == 0
    assert "process 1 was stopped and did not answer: starting all 2 again" in err
    assert [len(each) for each in pids] == [2, 2]
    code, *_ = pretend("abort,stop", options=("--restarts", "0"))
    assert code == 128 + signal.SIGABRT


@pytest.mark.slow
def test_restarts_are_bounded_and_the_exit_code_is_the_cause(pretend):
    code, _, err, pids = pretend("1,kill", options=("--restarts", "2"))
    assert (
        code == 128 + signal.SIGKILL
    )  # not 1, with which the survivor failed because of that death
    assert [len(each) for each in pids] == [3, 3]
    assert err.splitlines()[-1] == "bahdanau: process 1 was ended by SIGKILL"
    code, _, err, _ = pretend("7,hang", options=("--restarts", "0"))
    assert code == 7 and "process 0 failed with exit code 7" in err


@pytest.mark.slow
def test_what_the_user_can_mend_is_not_tried_again(pretend):
    code, _, err, pids = pretend("2,hang")
    assert (code, [len(each) for each in pids]) == (2, [1, 1])
    assert "again" not in err
    code, *_ = pretend("0,0", "2,kill", "0,0")  # the dead one is the cause of the other's error
    assert code == 0


@pytest.mark.parametrize(
    ("mine", "cause"), [("75", "0 failed with exit code 75"), ("7", "1 failed")]
)
def test_who_lost_another_is_started_again_and_no_cause(pretend, mine, cause):
    code, _, err, pids = pretend(f"75,{mine}", "0,0")
    assert (code, [len(each) for each in pids]) == (0, [2, 2])
    assert f"process {cause}" in err


def start(folder: Path, *attempts, options=()) -> subprocess.Popen:
    code = f"""
import sys
from bahdanau_jax.cli import launch_command
launch_command.PROGRAM = (sys.executable, "-c", {PRETEND!r})
sys.exit(launch_command.main(sys.argv[1:]))
"""
    arguments = ["--processes", "2", *options, "--", "train", str(folder), *attempts]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=small.ROOT)
    wait_for(lambda: all((folder / f"ready{i}").exists() for i in range(2)))
    return process


def wait_for(holds, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def alive(folder: Path) -> list[int]:
    pids = [int(log.read_text().split()[0]) for log in folder.glob("log*")]
    return [pid for pid in pids if lives(pid)]


def lives(pid: int) -> bool:
    """Whether a process exists and has not ended; it may end while its state is read."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_handed_on_and_ends_the_whole(tmp_path, number):
    process = start(tmp_path, "polite,polite")
    process.send_signal(number)
    assert process.wait(30) == 143
    assert not alive(tmp_path)


def test_a_signal_that_is_ignored_stays_so():
    """A shell ignores Ctrl-C for a job in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with launch_command._signals() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN and not stop.received
    finally:
        signal.signal(signal.SIGINT, before)


def test_who_does_not_leave_in_time_is_ended(tmp_path):
    process = start(tmp_path, "hang,polite", options=("--grace", "0.3"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    assert not alive(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's death")
def test_a_killed_launcher_leaves_no_process_behind(tmp_path):
    process = start(tmp_path, "hang,hang")
    process.kill()
    process.wait()
    wait_for(lambda: not alive(tmp_path))


def test_processes_are_told_of_each_other_and_of_their_devices():
    chosen = launch_command.Launch(processes=3, devices_per_process=2)
    assert launch_command.environment(1, 4321, chosen) == {
        "BAHDANAU_COORDINATOR": "127.0.0.1:4321",
        "BAHDANAU_PROCESSES": "3",
        "BAHDANAU_PROCESS_ID": "1",
        "JAX_NUM_CPU_DEVICES": "2",
        "JAX_LOCAL_DEVICE_IDS": "2,3",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--", "train"], "missing: --processes"),
        (
            ["--processes", "2", "train", "my.py", "--workdir", "a b"],
            "-- is missing before train: bahdanau launch --processes 2 -- train my.py "
            "--workdir 'a b'",
        ),
        (
            ["train", "--workdir", "x"],
            "-- is missing before train: bahdanau launch --processes N -- train --workdir x",
        ),
        (["--processes", "2"], "nothing to launch: bahdanau launch --processes N -- train"),
        (["--processes", "2", "--"], "nothing to launch"),
        (["--processes", "2", "--", "translate"], "only train runs in several processes, not tran"),
        (["--processes", "0", "--", "train"], "--processes should be at least 1"),
        (["--processes", "2", "--restarts", "-1", "--", "train"], "at least 0"),
        (["--processes", "2", "--grace", "-1", "--", "train"], "at least 0"),
        (["--processes", "2", "--grace", "nan", "--", "train"], "at least 0"),
        (["--processes", "2", "--restart", "1", "--", "train"], "did you mean --restarts?"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        launch_command.main(arguments)


@pytest.mark.parametrize(
    ("codes", "cause"),
    [
        ((2, -signal.SIGABRT), 2),  # a wrong setting, and the one who waited for the first process
        ((1, 2), 2),  # a full disk, and the one whose message found no peer
        ((2, -signal.SIGKILL), -signal.SIGKILL),  # a death, and a save that needed the dead
        ((-signal.SIGABRT, 1), 1),
        ((-signal.SIGABRT, -signal.SIGSEGV), -signal.SIGSEGV),
    ],
)
def test_causes_are_told_from_consequences(codes, cause):
    assert min(codes, key=launch_command._rank) == cause


SECOND = """
import sys
from bahdanau_jax.cli import launch_command, main
launch_command.PROGRAM = (sys.executable, "-c", {pretend!r})
sys.argv = ["bahdanau", "launch", "--processes", "2", "--", "train", {folder!r}, "worker,worker"]
sys.exit(main.main())
"""


@pytest.mark.parametrize("patience", ["1.0", "0.0"])  # who is first: the main thread or `leaving`
def test_a_second_ctrl_c_ends_all_at_once(tmp_path, patience):
    program = f"from bahdanau_jax.cli import leaving; leaving.PATIENCE = {patience}\n"
    program += SECOND.format(pretend=PRETEND, folder=str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=small.ROOT,
    )
    wait_for(lambda: all((tmp_path / f"ready{i}").exists() for i in range(2)))
    process.send_signal(signal.SIGINT)
    wait_for(lambda: all((tmp_path / f"asked{i}").exists() for i in range(2)))
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - start < MOST
    own = [line for line in err.splitlines() if not line.startswith("[")]
    assert own == ["bahdanau: saving; Ctrl-C again leaves at once", "bahdanau: interrupted"]
    assert process.returncode == 130
    wait_for(lambda: not alive(tmp_path), 5)


def test_the_help_says_what_ctrl_c_does(capsys):
    with pytest.raises(SystemExit):
        launch_command.main(["--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "The first Ctrl-C, or SIGTERM, saves the run and ends the command" in told
    assert "A second Ctrl-C ends all processes at once, without saving." in told
