"""How processes are told of each other or find each other, before JAX starts."""

import re
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax import distributed, training
from bahdanau_jax.distributed import arrangement, processes

TOLD = {
    "BAHDANAU_COORDINATOR": "10.0.0.1:4321",
    "BAHDANAU_PROCESSES": "4",
    "BAHDANAU_PROCESS_ID": "3",
}


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("10.0.0.1:4321", 4, 3), {}),
        (("", 0, -1), TOLD),
        (("10.0.0.1:4321", 0, 3), {**TOLD, "BAHDANAU_COORDINATOR": "elsewhere:1"}),
        (("10.0.0.1:4321", 4, 3), {"SLURM_STEP_NUM_TASKS": "2"}),
    ],
)
def test_arguments_come_before_the_environment_and_both_before_a_cluster(arguments, environment):
    assert arrangement.arrangement(*arguments, environment) == {
        "coordinator_address": "10.0.0.1:4321",
        "num_processes": 4,
        "process_id": 3,
        "cluster_detection_method": "deactivate",
    }


@pytest.mark.parametrize(
    "environment",
    [
        {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"},
        {"OMPI_COMM_WORLD_SIZE": "2"},
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "0"},
    ],
)
def test_a_cluster_shows_itself_and_the_rest_is_left_to_jax(environment):
    assert arrangement.arrangement("", 0, -1, environment) == {}
    assert arrangement.is_one_of_several("", 0, -1, environment)


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("", 0, -1), {}),
        (("", 0, -1), {"SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_ID": "7"}),
        (("", 0, -1), {"SLURM_NTASKS": "4"}),  # in a batch script, outside srun
        (("", 0, -1), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),  # any pod
        (("10.0.0.1:4321", 1, 0), {}),
        (("", 1, -1), TOLD),
        (("", 0, -1), {"BAHDANAU_PROCESSES": "1"}),
        (("", 0, -1), {"BAHDANAU_PROCESSES": "1", "SLURM_STEP_NUM_TASKS": "2"}),
        (("", 1, 0), {"SLURM_STEP_NUM_TASKS": "2"}),
    ],
)
def test_a_process_on_its_own(arguments, environment):
    assert arrangement.arrangement(*arguments, environment) is None
    assert not arrangement.is_one_of_several(*arguments, environment)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with distributed.connected(*arguments):
            assert distributed.is_main_process() and not distributed.is_distributed()


def test_a_process_on_its_own_has_the_devices_that_the_launcher_names(monkeypatch):
    changed = {}
    monkeypatch.setattr(jax.config, "update", changed.__setitem__)
    with distributed.connected():
        assert changed == {}
    monkeypatch.setenv("JAX_LOCAL_DEVICE_IDS", "0,1")
    with distributed.connected(processes=1):
        assert changed == {"jax_cuda_visible_devices": "0,1", "jax_rocm_visible_devices": "0,1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("10.0.0.1:4321", 2, -1), "--process-id missing: several processes need"),
        (("", 2, -1), "--coordinator and --process-id missing"),
        (("10.0.0.1:4321", 2, 2), "process 2 of 2: --process-id counts from 0, so"),
        (("10.0.0.1:4321", -2, 0), "process 0 of -2"),
        (("10.0.0.1", 2, 0), "--coordinator is '10.0.0.1', but should be HOST:PORT"),
        ((":4321", 2, 0), "should be HOST:PORT"),
        (("10.0.0.1:0", 2, 0), "with a port from 1 to 65535"),
        (("10.0.0.1:84760", 2, 0), "with a port from 1 to 65535"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        arrangement.arrangement(*arguments, {})


class ClusterError(Exception):
    """An error as those of the libraries of a cluster, whose classes nobody else knows."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("no headless service"), OSError),
        (ClusterError("no token\nof a service account"), OSError),
        (ValueError("coordinator_address should be defined."), OSError),
        (RuntimeError("Retry failed: no address of process 0"), distributed.Lost),
        (jax.errors.JaxRuntimeError("UNAVAILABLE"), distributed.Lost),
    ],
)
def test_a_cluster_without_the_others_is_told_once_or_tried_again(error, kind, monkeypatch):
    def refuse(**told):
        raise error

    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setattr(jax.distributed, "initialize", refuse)
    with pytest.raises(OSError) as caught, distributed.connected():
        pass
    assert type(caught.value) is kind
    assert ("or train alone by --processes 1" in str(caught.value)) == (kind is OSError)


def test_a_process_that_is_gone_when_all_leave_is_lost(monkeypatch):
    def shutdown():
        raise jax.errors.JaxRuntimeError("DEADLINE_EXCEEDED: barrier\nmore")

    monkeypatch.setattr(jax.distributed, "initialize", lambda **told: None)
    monkeypatch.setattr(jax.distributed, "shutdown", shutdown)
    monkeypatch.setattr(processes, "_open", [])
    told = "hangs: see what it printed .DEADLINE_EXCEEDED"
    with pytest.raises(distributed.Lost, match=told), distributed.connected("10.0.0.1:4321", 2, 0):
        pass


def test_others_that_cannot_be_joined_are_told_with_what_to_do(monkeypatch):
    def refuse(**told):
        raise RuntimeError("UNKNOWN: Failed to start RPC server")

    monkeypatch.setattr(jax.distributed, "initialize", refuse)
    told = r"processes of 10.0.0.1:4321: UNKNOWN: .*; the address should be that of process 0, with"
    with pytest.raises(distributed.Lost, match=told), distributed.connected("10.0.0.1:4321", 2, 0):
        pass
    assert not processes.is_connected()


def test_code_that_computes_on_import_is_no_lost_process(monkeypatch):
    def refuse(**told):
        raise RuntimeError(
            "jax.distributed.initialize() must be called before any JAX calls that might "
            "initialise the XLA backend."
        )

    monkeypatch.setattr(jax.distributed, "initialize", refuse)
    told = "code that the configuration names, or its file, computes with JAX when it is imported"
    with pytest.raises(ValueError, match=told), distributed.connected("10.0.0.1:4321", 2, 0):
        pass
    assert not processes.is_connected()


def test_a_cluster_that_jax_cannot_read_is_no_lost_process(monkeypatch):
    def refuse(**told):
        raise ValueError("coordinator_address should be defined.")

    monkeypatch.setattr(jax.distributed, "initialize", refuse)
    with (
        pytest.raises(OSError, match="cannot join the other processes: coord") as wrong,
        distributed.connected("10.0.0.1:4321", 2, 0),
    ):
        pass
    assert not isinstance(wrong.value, distributed.Lost) and not processes.is_connected()


@pytest.mark.parametrize(
    "silence",
    [
        "UNKNOWN: Gloo AllReduce failed: Connection closed by peer [127.0.0.1]:4321\nmore",
        "DEADLINE_EXCEEDED: Barrier timed out",
        "UNAVAILABLE: failed to connect to all addresses",
    ],
)
def test_a_silent_process_is_told_in_a_line(monkeypatch, one_of_two, silence):
    monkeypatch.setattr(jax.distributed, "initialize", lambda **told: None)
    one_of_two(0)
    monkeypatch.setattr(processes, "_open", [])
    with (
        pytest.raises(
            distributed.Lost, match=r"^another process has ended or hangs: .*\)$"
        ) as lost,
        distributed.connected("10.0.0.1:4321", 2, 0),
    ):
        raise jax.errors.JaxRuntimeError(silence)
    assert silence.splitlines()[0] in str(lost.value)
    assert processes.is_connected()  # the others have to learn of it


@pytest.mark.parametrize("fault", ["RESOURCE_EXHAUSTED: out of memory", "INTERNAL: a fault"])
def test_another_fault_of_xla_is_no_silence(monkeypatch, one_of_two, fault):
    monkeypatch.setattr(jax.distributed, "initialize", lambda **told: None)
    one_of_two(0)
    monkeypatch.setattr(processes, "_open", [])
    with (
        pytest.raises(jax.errors.JaxRuntimeError, match=fault),
        distributed.connected("10.0.0.1:4321", 2, 0),
    ):
        raise jax.errors.JaxRuntimeError(fault)


def test_one_process_agrees_with_itself():
    scores = {"loss": 1 / 3, "bleu": np.nextafter(50.0, 51.0)}
    assert distributed.broadcast(scores) == scores
    assert distributed.main_process_first(lambda: 7) == 7
    assert distributed.holds_everywhere(True) and not distributed.holds_everywhere(False)


def test_numbers_of_the_main_process_arrive_to_the_last_bit(monkeypatch):
    monkeypatch.setattr(processes, "is_distributed", lambda: True)
    monkeypatch.setattr(processes, "barrier", lambda: None)
    through_jax = SimpleNamespace(broadcast_one_to_all=jnp.asarray)  # which has no 64 bits
    monkeypatch.setattr(processes, "multihost_utils", through_jax)
    scores = {"loss": 1 / 3, "bleu": np.nextafter(50.0, 51.0), "none": np.inf}
    assert distributed.broadcast(scores) == scores


def test_where_the_main_process_fails_the_others_leave(monkeypatch):
    """Each side of two processes; without it, the others would wait for the main one for ever."""
    monkeypatch.setattr(processes, "is_distributed", lambda: True)
    monkeypatch.setattr(processes, "barrier", lambda: None)
    left = []
    monkeypatch.setattr(processes, "_leave", lambda: left.append(True))
    from_main = SimpleNamespace(broadcast_one_to_all=lambda failed: np.int32(told or failed))
    monkeypatch.setattr(processes, "multihost_utils", from_main)

    def failing():
        raise ValueError("no such file")

    told = 0
    monkeypatch.setattr(processes, "is_main_process", lambda: True)
    with pytest.raises(ValueError, match="no such file"):
        distributed.main_process_first(failing)
    assert distributed.main_process_first(lambda: 7) == 7
    monkeypatch.setattr(processes, "is_main_process", lambda: False)
    assert distributed.main_process_first(lambda: 8) == 8
    told = 1
    with pytest.raises(OSError, match="process 0 could not begin: see its error message"):
        distributed.main_process_first(lambda: pytest.fail("the work was begun"))
    assert left == [True, True]


def test_one_module_alone_asks_jax_about_processes():
    asks = re.compile(r"jax\.process_(index|count)|multihost|reached_preemption")
    package = Path(processes.__file__).parents[1]
    files = {path for path in package.rglob("*.py") if asks.search(path.read_text("utf-8"))}
    assert files == {Path(processes.__file__)}


def test_the_monitor_of_another_process_writes_nothing(tmp_path, capfd, one_of_two):
    one_of_two(1)
    monitor = training.Monitor(tmp_path, 10, log_every=1)
    monitor.start(0, {})
    with monitor.paused():
        monitor.evaluation(1, {"dev_score": 1.0})
    monitor.update(1, {"loss": 1.0, "words": 2.0, "seconds": 1.0})
    monitor.note("a word")
    monitor.close()
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
