"""What the programs of a comparison share: compiled programs, clocks."""

import os
import time
from types import SimpleNamespace

import jax
import pytest

from benchmarks import device_program, program_cache
from benchmarks.peers import serving


def test_a_measurement_finds_no_compiled_programs_of_earlier_ones(monkeypatch, tmp_path):
    monkeypatch.setattr(program_cache, "_OF_THE_USER", None)
    monkeypatch.setenv(program_cache.VARIABLE, str(tmp_path))  # a default of the command line
    folders = []
    with program_cache.empty_cache():
        folders.append(os.environ[program_cache.VARIABLE])
        with program_cache.empty_cache():
            folders.append(os.environ[program_cache.VARIABLE])
        assert os.environ[program_cache.VARIABLE] == folders[0]
        assert os.listdir(folders[0]) == []
    assert os.environ[program_cache.VARIABLE] == str(tmp_path)
    assert len({*folders, str(tmp_path)}) == 3 and not any(map(os.path.exists, folders))


def test_a_folder_of_the_user_keeps_its_programs(monkeypatch, tmp_path):
    monkeypatch.setattr(program_cache, "_OF_THE_USER", str(tmp_path))
    monkeypatch.setenv(program_cache.VARIABLE, str(tmp_path))
    with program_cache.empty_cache():
        assert os.environ[program_cache.VARIABLE] == str(tmp_path)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the timed functions move: `clock(s)` moves it by s seconds."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def move(seconds):
        now[0] += seconds

    return move


def test_the_rate_of_a_product_is_operations_by_seconds(clock):
    started = []

    def wait(last):
        clock(0.5 * len(started))
        started.clear()

    found = serving.matrix_rate(lambda: started.append(1), wait, size=10, repeats=4)
    assert found == {"flops_per_second": 2 * 10**3 / 0.5}  # the first product is not counted


def test_calls_are_timed_one_by_one_in_rounds_of_the_wanted_length(clock):
    counts = []

    def calls(count):
        counts.append(count)
        clock(count * (2.0 if len(counts) == 5 else 0.25))  # one round is slow

    found = device_program.time_calls(calls, seconds=1.0, rounds=3)
    assert counts[1:] == [1, 4, 4, 4]
    assert found == {"seconds": 0.25, "rounds": [0.25, 0.25, 2.0]}


def test_a_step_is_timed_with_all_its_updates(clock):
    stepping = serving.Stepping(lambda: clock(0.5) or 3.0)
    assert stepping.step(3) == {"seconds": 1.5, "losses": [3.0, 3.0, 3.0]}


@pytest.mark.parametrize(
    ("platform", "statistics", "expected"),
    [
        ("gpu", {"peak_bytes_in_use": 3 * 2**20}, 3 * 2**20),
        ("gpu", {"bytes_in_use": 1}, 0),
        ("gpu", None, 0),
        ("cpu", {"peak_bytes_in_use": 7}, 0),
    ],
)
def test_a_device_without_statistics_has_no_peak(monkeypatch, platform, statistics, expected):
    device = SimpleNamespace(platform=platform, memory_stats=lambda: statistics)
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    assert device_program.device_peak() == expected
    assert ("device_mib" in device_program.growth(0)) == (expected > 0)
