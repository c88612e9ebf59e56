import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from bahdanau_jax import data
from bahdanau_jax.config import DataConfig
from benchmarks import data_benchmark, machine
from benchmarks.__main__ import BENCHMARKS, main


@pytest.mark.slow
def test_the_command_measures_what_it_says(capfd, tmp_path):
    code = main(
        [
            *("data", "--data.train", "builtin:copy/train?pairs=600&min=3&max=9"),
            *("--encoders", "words", "--repeats", "1", "--padding-shapes", "1,3"),
        ]
    )
    out, err = capfd.readouterr()
    assert (code, err) == (0, "")
    found = json.loads(out)
    prepared = found["prepare"]["words"]
    assert prepared["read"] == prepared["kept"] == 600
    assert set(prepared["seconds"]) == {"tokenise", "learn", "encode"}
    assert prepared["pairs_per_second"]["encode"] > prepared["pairs_per_second"]["all"] > 0
    assert 30 < prepared["peak_mib"] < 4_000
    assert found["batches"]["target_words_per_second"] > 0
    for curve in found["padding"]["share"].values():
        assert 1 > curve["1"] > curve["3"] >= curve["exact"] > 0


@pytest.mark.slow
def test_few_pairs_give_the_largest_vocabularies_that_they_can(capfd):
    train = "builtin:en-fr/train?pairs=60&max=6"
    options = ("--data.train", train, "--repeats", "1", "--padding-shapes", "1")
    assert main(["data", *options, "--encoders", "bpe"]) == 0
    sizes = json.loads(capfd.readouterr().out)["prepare"]["bpe"]["sizes"]
    assert set(sizes) == {"source_vocabulary_size", "target_vocabulary_size"}
    assert all(20 < size < 1_000 for size in sizes.values())


@pytest.mark.slow
def test_a_preparation_that_fails_is_one_line(capfd):
    options = ("--data.train", "builtin:copy/train?pairs=60&min=3", "--data.max-tokens", "1")
    assert main(["data", *options, "--encoders", "words"]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("bahdanau: no training pair is left of 60")
    assert err.count("\n") == 1


def test_the_words_of_the_batch_before_the_clock_starts_do_not_count(monkeypatch):
    first, others = np.ones((80, 50)), np.zeros((80, 50))
    batches = [SimpleNamespace(target_mask=mask) for mask in (first, *2_000 * [others])]
    monkeypatch.setattr(data, "train_batches", lambda *_: iter(batches))
    monkeypatch.setattr(data.Plan, "of", lambda *_: None)
    found = data_benchmark.deliver(None, DataConfig(), 1)
    assert found["target_words_per_second"] == 0


def test_unknown_benchmarks_and_encoders(capfd):
    assert main(["dta"]) == 2
    assert "did you mean data?" in capfd.readouterr().err
    assert main(["data", "--data.train", "text:no.en,no.fr"]) == 2
    assert "no.en" in capfd.readouterr().err
    assert main(["data", "--encoders", "wrods"]) == 2
    assert "no kind of encoding 'wrods'" in capfd.readouterr().err


def test_what_cannot_be_measured_is_refused_before_any_work(benchmark):
    train = ("data", "--data.train", "builtin:copy/train?pairs=600")
    code, _, err = benchmark(*train, "--repeats", "0")
    assert code == 2 and "--repeats is 0, but at least 1 is needed" in err
    code, _, err = benchmark(*train, "--encoders", "words,bogus")
    assert code == 2 and "bogus" in err


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of processes is read in /proc")
def test_the_memory_of_children_counts():
    code = "held = bytearray(200 * 2**20); import time; time.sleep(1)"
    with machine.PeakMemory() as alone:
        pass
    with machine.PeakMemory() as together:
        subprocess.run([sys.executable, "-c", code], check=True)
    # Other processes share pages of the interpreter, and begin and end at any time.
    assert 150 < together.mib - alone.mib < 400


@pytest.mark.parametrize("name", BENCHMARKS)
def test_help_begins_with_examples(benchmark, name):
    code, out, err = benchmark(name, "--help")
    assert (code, err) == (0, "") and f"usage: python -m benchmarks {name}" in out
    assert f"  python -m benchmarks {name}" in out.split("examples:\n")[1]


def test_the_benchmarks_are_listed(benchmark):
    assert all(f"  {name} " in benchmark("--help")[1] for name in BENCHMARKS)
