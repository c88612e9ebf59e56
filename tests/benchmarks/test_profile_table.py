"""The table of the costliest operations, on events whose totals are known."""

import pytest

from benchmarks import profile_table
from benchmarks.profile_table import Event

MS = 1e6  # nanoseconds


def test_times_are_those_of_an_update_and_overlaps_count_once():
    events = [
        Event("fusion.1", "k1", 0, 2 * MS),
        Event("fusion.2", "k2", 1 * MS, 3 * MS),  # overlaps the first by a millisecond
        Event("gemm_fusion_dot_7", "k3", 6 * MS, 4 * MS),
        Event("fusion.1", "k1", 12 * MS, 2 * MS),
        Event("gemm_fusion_dot_7", "k3", 14 * MS, 6 * MS),
    ]
    found = profile_table.table(events, updates=2)
    assert found["milliseconds"] == 10.0 and found["kernels"] == 2.5
    assert found["busy_share"] == (4 + 4 + 2 + 6) / 20
    first, second, third = found["operations"]
    assert first == {
        "name": "gemm_fusion_dot_7",
        "kernel": "k3",
        "count": 1.0,
        "milliseconds": 5.0,
        "share": round(10 / 17, 4),
    }
    assert (second["name"], second["milliseconds"]) == ("fusion.1", 2.0)
    assert (third["name"], third["count"]) == ("fusion.2", 0.5)
    kinds = {row["name"]: row["milliseconds"] for row in found["kinds"]}
    assert kinds == {"gemm_fusion_dot": 5.0, "fusion": 3.5}


@pytest.mark.parametrize("name", ["while", "while.12", "call.3", "cond_4.1", "command_buffer.2"])
def test_operations_that_run_others_do_not_count(name):
    assert profile_table.CONTAINERS.match(name)
    assert not profile_table.CONTAINERS.match(f"{name}_fusion")


def test_a_kernel_of_a_cuda_graph_counts_by_its_own_name():
    """The trace of a GPU gives all kernels of a graph the name of the graph as operation."""
    assert profile_table.operation("command_buffer_119", "gemm_fusion_dot_3") == "gemm_fusion_dot_3"
    assert profile_table.operation("command_buffer.2", "command_buffer.2") == "command_buffer.2"
    assert profile_table.operation("fusion.3", "loop_fusion") == "fusion.3"


def test_a_trace_without_operations_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="the trace has no operation of a device"):
        profile_table.read(tmp_path, 3)
