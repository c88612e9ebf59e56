"""Peers compute the same updates as ours, and the command reports what it measured."""

import json
from typing import ClassVar

import jax
import numpy as np
import pytest

from benchmarks import sizes, train_benchmark, updates
from benchmarks.__main__ import main

SIZE = sizes.SIZES["tiny"][0]
EAGER = {"autocast": False, "threads": 1, "keep_memory": True, "foreach": False}
EAGER |= {"compile": False, "compile_update": False}


def test_pytorch_makes_the_same_updates_from_the_same_weights(torch_python, tmp_path):
    """A fault of loss, gradient, clipping or Adadelta would change the losses of later updates."""
    config = updates.architecture(SIZE)
    params = updates.parameters(config)
    updates.save_parameters(tmp_path / "weights.npz", params)
    peer = train_benchmark.PEERS["torch"]
    weights = str(tmp_path / "weights.npz")
    with train_benchmark.start(peer, "torch", SIZE, EAGER, torch_python, weights) as torch:
        theirs = [torch.greeting["first_loss"], *torch.ask(do="step", count=3)["losses"]]
        counted = torch.ask(do="count")["flops"]
        assert torch.greeting["parameters"] == sum(x.size for x in jax.tree.leaves(params))
    state, step, loss, *_ = updates.ours(config, params)
    batch, ours = updates.random_batch(SIZE), []
    for _ in theirs:
        state, sums = step(state, batch)
        ours.append(float(loss(sums)))
    np.testing.assert_allclose(theirs, ours, rtol=1e-5)
    assert ours[0] - ours[-1] > 1  # so that a missing update would show
    # PyTorch leaves out the gradients of the first states, which are constants.
    assert 0.97 < counted / sizes.flops(SIZE) <= 1


def test_joeynmt_has_operations_of_its_own():
    """At paper size 180 MFLOP a word for its output, 58.3 for its encoder, 18 each for keys with
    queries and for the layer before the output, 47.2 for its decoder's GRU."""
    size = sizes.SIZES["paper"][0]
    words = size.B * size.T
    expected = 180 + 58.32 + 18 + 18 + 47.16 + 0.54 + 0.4  # energies and contexts, bridge
    assert sizes.joeynmt(size) / words / 1e6 == pytest.approx(expected, abs=0.05)


def test_joeynmt_counts_as_many_words(torch_python):
    peer = train_benchmark.PEERS["joeynmt"]
    settings = {"autocast": False, "threads": 1, "keep_memory": False}
    with train_benchmark.start(peer, "joeynmt", SIZE, settings, torch_python) as joey:
        assert joey.greeting["target_words"] == SIZE.B * SIZE.T
        before, after = joey.ask(do="step", count=2)["losses"]
        assert after < before
        assert joey.ask(do="memory")["resident_mib"] > 0


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(train_benchmark, "ON_CPU", (64, 2))
    monkeypatch.setattr(train_benchmark, "SECONDS", 0.0)


@pytest.mark.slow
def test_the_command_measures_what_it_says(quick, capfd):
    assert main(["train", "--size", "tiny", "--rounds", "2", "--peers", "jax"]) == 0
    out, err = capfd.readouterr()
    assert "jax 2/2: " in err
    found = json.loads(out)
    (one,) = found["sizes"]
    assert one["target_words"] == SIZE.B * SIZE.T
    ours, peer = one["ours"], one["peers"]["jax"]
    assert ours["parameters"] == peer["parameters"]
    np.testing.assert_allclose(ours["first_loss"], peer["first_loss"], rtol=1e-5)
    for side in (ours, peer, peer["ours_beside_it"]):
        assert len(side["rounds"]) == 2
        assert side["seconds_per_update"] == pytest.approx(np.median(side["rounds"]), abs=1e-5)
        assert side["share_of_matrix_rate"] > 0 and side["target_words_per_second"] > 0
    limit = max(ours["matrix_gflops"], peer["matrix_gflops"])
    assert one["limit_gflops"] == limit
    for side in (ours, peer):
        assert side["share_of_limit"] == round(side["gflops"] / limit, 3)
    ratio = peer["seconds_per_update"] / peer["ours_beside_it"]["seconds_per_update"]
    assert peer["ours_over_it"] == pytest.approx(ratio, abs=1e-3)
    plan = ours["planned_mib"]
    whole = plan["arguments"] + plan["temporaries"] + plan["output"] + plan["donated"]
    assert plan["all"] == pytest.approx(whole, abs=0.3) and plan["donated"] < 0
    assert ours["compile_seconds"] > 0 and ours["memory"]["resident_mib"] > 0


@pytest.mark.exhaustive
def test_a_peer_that_fails_leaves_the_others_measured(quick, capfd, tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'OSError: no cake' >&2\nexit 1\n", encoding="utf-8")
    python.chmod(0o755)
    options = ["--size", "tiny", "--rounds", "1", "--peers", "torch,jax", "--torch-python"]
    monkeypatch.chdir(tmp_path)
    assert main(["train", *options, "./python"]) == 0  # and not the one of PATH
    out, err = capfd.readouterr()
    (one,) = json.loads(out)["sizes"]
    said = "torch ended; last error: OSError: no cake"
    assert one["peers"]["torch"]["failed"] == said and said in err
    assert one["peers"]["jax"]["ours_over_it"] > 0 and one["ours"]["share_of_limit"] > 0
    python.write_text("#!/nowhere/sh\n", encoding="utf-8")
    assert main(["train", *options, "python"]) == 0
    (one,) = json.loads(capfd.readouterr().out)["sizes"]
    assert one["peers"]["torch"]["failed"].startswith("torch does not start; last error: ")
    assert "jax" in one["peers"]


@pytest.mark.exhaustive
def test_ours_may_round_its_products_and_plain_jax_never_does(quick, capfd):
    options = ["--rounds", "1", "--peers", "jax", "--compute_dtype", "bfloat16", "--batches", "4"]
    assert main(["train", "--size", "tiny", *options]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [one["size"]["B"] for one in found["sizes"]] == [4]
    ours, plain = found["sizes"][0]["ours"], found["sizes"][0]["peers"]["jax"]
    assert found["compute_dtype"] == "bfloat16" and ours["first_loss"] != plain["first_loss"]
    assert ours["first_loss"] == pytest.approx(plain["first_loss"], rel=1e-3)


@pytest.mark.exhaustive
def test_models_of_the_vmapped_program_have_our_updates():
    config = updates.architecture(SIZE)
    params, batch = updates.parameters(config), updates.random_batch(SIZE)
    one, many = updates.ours(config, params), updates.vmapped(config, params)
    state, states, losses = one.state, many.state, []
    for _ in range(3):
        state, ours = one.step(state, batch)
        states, theirs = many.step(states, batch)
        losses.append((one.loss(ours), many.loss(theirs)))
    assert many.models == len(theirs.loss) == 10 and one.models == 1
    np.testing.assert_allclose(*zip(*losses, strict=True), rtol=1e-5)
    assert len({*theirs.loss.tolist()}) == 10  # each has weights of its own


@pytest.mark.exhaustive
def test_models_may_read_batches_of_their_own():
    config = updates.architecture(SIZE)
    params = updates.parameters(config)
    one, many = updates.ours(config, params), updates.vmapped_own(config, params)
    batches = many.batch(SIZE)
    assert len({*map(bytes, batches.source)}) == 10
    first = jax.tree.map(lambda leaf: leaf[0], batches)
    jax.tree.map(np.testing.assert_array_equal, first, one.batch(SIZE))
    _, ours = one.step(one.state, first)
    _, theirs = many.step(many.state, batches)
    np.testing.assert_allclose(many.loss(theirs), one.loss(ours), rtol=1e-5)
    program = updates.vmapped(config, params)
    _, shared = program.step(program.state, program.batch(SIZE))
    assert not np.isclose(theirs.loss, shared.loss, rtol=1e-5)[1:].any()


def test_seconds_are_those_of_one_model(monkeypatch):
    """Four calls of a program of ten models take 8 s: one update of one model takes 0.2 s."""

    class Fake:
        greeting: ClassVar = {"device": "cpu", "models": 10}

        def ask(self, do, **_):
            return {"step": {"seconds": 8.0}, "matrix": {"flops_per_second": 5.0}}[do]

    assert train_benchmark.turn(Fake(), 4, "float32") == (0.2, 5.0)


def test_only_beside_rounded_products_may_pytorch_choose_to_round():
    for name, peer in train_benchmark.PEERS.items():
        alone, beside = (peer.with_dtype(kind).choices for kind in ("float32", "bfloat16"))
        theirs = name in ("torch", "torch-compiled", "torch-cudnn", "joeynmt")
        assert alone.get("autocast") == ((False,) if theirs else None)
        assert beside.get("autocast") == ((True, False) if theirs else None)
        ours = name in ("summed-in-loops", "vmapped", "vmapped-own")
        assert (beside.get("compute_dtype") == ("bfloat16",)) == ours
        assert {**beside, "autocast": 0, "compute_dtype": 0} == {
            **alone,
            "autocast": 0,
            "compute_dtype": 0,
        }


def test_pytorch_rounds_by_autocast(torch_python):
    losses = []
    for autocast in (False, True):
        settings = EAGER | {"autocast": autocast}
        for name in ("torch", "joeynmt"):
            with train_benchmark.start(
                train_benchmark.PEERS[name], name, SIZE, settings, torch_python
            ) as peer:
                losses.append(peer.greeting["first_loss"])
    for exact, rounded in zip(losses[:2], losses[2:], strict=True):
        assert exact != rounded == pytest.approx(exact, rel=5e-3)


def test_settings_are_chosen_one_at_a_time(monkeypatch):
    cost = {(2, True): 5.0, (1, True): 3.0, (1, False): 4.0, (2, False): 1.0}
    asked = []

    class Fake:
        def __init__(self, contestant, name, size, settings, python):
            self.key = tuple(settings.values())

        def __enter__(self):
            asked.append(self.key)
            return self

        def __exit__(self, *_): ...

        def ask(self, **_):
            return {"seconds": cost[self.key]}

    monkeypatch.setattr(train_benchmark, "start", Fake)
    choices = {"threads": (2, 1), "keep_memory": (True, False)}
    peer = train_benchmark.Contestant("", lambda name, python: [], choices)
    found = train_benchmark.tune(peer, "torch", SIZE, None)
    assert found["settings"] == {"threads": 1, "keep_memory": True}
    assert asked == [(2, True), (1, True), (1, False)]  # each once
    assert {"threads": 1, "keep_memory": False, "seconds": 4.0} in found["tried"]


def test_the_share_of_the_limit_is_of_medians():
    seconds = [train_benchmark.Round(s, m) for s, m in ((1.0, 4e9), (9.0, 1e9), (2.0, 2e9))]
    found = train_benchmark.rates(seconds, SIZE, sizes.flops(SIZE))
    assert found["seconds_per_update"] == 2.0 and found["matrix_gflops"] == 2.0
    assert found["target_words_per_second"] == 20.0
    assert found["share_of_matrix_rate"] == round(sizes.flops(SIZE) / 2.0 / 2e9, 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--size", "smal"], "no size 'smal'"),
        (["--peers", "jaxx"], "no peer 'jaxx'"),
        (["--peers", "jax,torch"], "the peer torch needs --torch-python"),
        (["--torch-python", "python"], "--torch-python needs a peer that runs in it"),
        (["--compute-dtype", "float16"], "no compute_dtype 'float16'; known: bfloat16, float32"),
        (["--rounds", "0"], "--rounds is 0, but at least 1 is needed"),
        (["--lengths", "30,x"], "--lengths is '30,x', but should be like"),
        (["--batches", "0"], "--batches is '0', but should be like"),
        (["--peers", "torch", "--torch-python", "/no/python"], "/no/python"),
    ],
)
def test_wrong_arguments_are_said_in_a_line(benchmark, monkeypatch, arguments, said):
    real = train_benchmark.start  # ours never starts: the error is raised before
    monkeypatch.setattr(
        train_benchmark, "start", lambda *given: Started() if given[1] == "ours" else real(*given)
    )
    code, out, err = benchmark("train", *arguments)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[-1] and "Traceback" not in err


class Started:
    greeting = {}

    def __enter__(self):
        return self

    def __exit__(self, *_): ...

    def ask(self, **_):
        return {"seconds": 1.0}
