"""A run with tied embeddings from training to every use of its weights."""

import dataclasses
import importlib.util
import re
import sys

import jax
import numpy as np
import pytest
from safetensors import numpy as tensors

import bahdanau_jax as bj
from bahdanau_jax import exchange, explorer, export, model, training
from bahdanau_jax.explorer import packed_weights
from bahdanau_jax.run import train_vmapped
from tests import small
from tests.model.test_groundhog import VS, VT, arrays
from tests.test_exchange import broken, words

LINES = ["We sleep.", "The man is tired.", "He sees a house."]
SIZE = small.config.model.embedding_size
OPTIONS = ["--model.tied-embeddings", "True", "--model.readout-size", str(SIZE)]
pytestmark = pytest.mark.slow


def config(steps: int = 8, seed: int = 1, **of_model) -> bj.Config:
    settings = {"readout_size": SIZE, "tied_embeddings": True, **of_model}
    return dataclasses.replace(
        small.config,
        model=dataclasses.replace(small.config.model, **settings),
        training=dataclasses.replace(
            small.config.training, steps=steps, seed=seed, checkpoint_every=4, evaluate_every=0
        ),
    )


@pytest.fixture(scope="module")
def tied(tmp_path_factory):
    return bj.train(config(), tmp_path_factory.mktemp("tied") / "run")


def assert_equal(ours, theirs, **tolerance):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **tolerance), ours, theirs)


def test_the_checkpoint_has_no_second_matrix(tied):
    assert tied.config.model.tied_embeddings
    loaded = bj.load(tied.folder)
    assert set(loaded.params["output"]) == {"b_w"}
    assert loaded.params["target_embedding"]["E"].shape[1] == SIZE
    assert_equal(loaded.params, tied.params, rtol=0)
    lines = training.read_metrics(tied.folder)
    assert all(np.isfinite(line["loss"]) for line in lines if "loss" in line)


def test_a_run_resumes_and_refuses_the_untied_model(tied, tmp_path):
    bj.train(config(steps=4), tmp_path / "run")
    bj.train(config(), tmp_path / "run")
    runs = (bj.load(folder, checkpoint="newest") for folder in (tmp_path / "run", tied.folder))
    assert_equal(*(run.params for run in runs), rtol=1e-6, atol=1e-7)
    with pytest.raises(ValueError, match="its model.tied_embeddings is True, not False"):
        bj.train(config(tied_embeddings=False), tmp_path / "run")


def test_weights_leave_and_return_in_one_file(tied, tmp_path):
    path = tmp_path / "model.safetensors"
    count = exchange.export_weights(tied.folder, path)
    flat = tensors.load_file(path)
    assert "output.W_o" not in flat and count == sum(array.size for array in flat.values())
    assert exchange.import_weights(path, tmp_path / "new") == count
    new = bj.load(tmp_path / "new")
    assert new.config.model == tied.config.model
    assert_equal(new.params, tied.params, rtol=0)
    assert new.translate(LINES) == tied.translate(LINES)
    broken(path, flat={"output.W_o": flat["target_embedding.E"].T.copy()})
    with pytest.raises(ValueError, match="does not hold the model of its own .*output/W_o"):
        exchange.import_weights(path, tmp_path / "other")


def test_groundhogs_weights_are_untied_and_stay_so(tmp_path):
    """Its files have an output matrix, so a tied configuration cannot continue their training."""
    np.savez(tmp_path / "a.npz", **arrays())
    lists = words(tmp_path, VS, "s"), words(tmp_path, VT, "t")
    exchange.import_weights(tmp_path / "a.npz", tmp_path / "run", lists)
    run = bj.load(tmp_path / "run")
    assert "W_o" in run.params["output"] and not run.config.model.tied_embeddings
    sizes = {"readout_size": 11, "output_size": run.config.model.embedding_size}
    other = dataclasses.replace(run.config.model, **sizes, tied_embeddings=True)
    changed = dataclasses.replace(run.config, model=other)
    with pytest.raises(ValueError, match="its model.tied_embeddings is False, not True"):
        bj.train(changed, tmp_path / "run")
    without = {name: array for name, array in arrays().items() if name[:2] != "W2"}
    with pytest.raises(ValueError, match="W2_dec_deep_softmax is missing"):
        model.groundhog.config(without)


def test_an_ensemble_of_tied_and_untied(tied, trained):
    """Their search averages the log-probabilities that both give."""
    other = bj.load(trained[0])
    both = bj.ensemble([tied, other])
    best = [hypothesis for hypothesis in both.translate(LINES) if hypothesis.finished]
    texts = [h.text for h in both.translate(LINES)]
    scores = [[h.score for h in each.score(LINES, texts)] for each in (both, tied, other)]
    np.testing.assert_allclose(scores[0], np.mean(scores[1:], axis=0), rtol=1e-5)
    assert np.ptp(scores, axis=0).min() > 1e-3
    for h in best:
        assert any(abs(h.score - score) < 1e-4 for score in scores[0])


@pytest.fixture
def runtime(tied, tmp_path, monkeypatch):
    """translate.py of the exported folder, as a module."""
    export.write(tied, tmp_path / "model")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "model"), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    spec = importlib.util.spec_from_file_location("translate", tmp_path / "model" / "translate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_exported_folder_translates_alike(tied, runtime, tmp_path, beam_size):
    settings = {"beam_size": beam_size, "min_ratio": 0.5}
    found = runtime.Translator(tmp_path / "model", **settings).translate(LINES)
    assert found == [h.text for h in tied.translate(LINES, **settings)]
    assert "output.W_o" not in tensors.load_file(tmp_path / "model" / "model.safetensors")


def test_the_page_packs_the_embedding_once(tied, tmp_path):
    page = explorer.write_page(tied, tmp_path / "page.html", LINES)
    names = [name for name, _ in packed_weights.pack(tied.params).manifest]
    assert names.count("target_embedding.E") == 1 and "output.W_o" not in names
    assert not page.recorded and '"tied_embeddings":true' in page.html


def test_saliency_and_attention_link_words(tied):
    pairs = [h.text or "nous" for h in tied.translate(LINES)]
    for weights in ("attention", "posterior", "saliency"):
        found = tied.align(LINES, pairs, weights=weights)
        assert len(found) == len(LINES)


def test_a_dry_run_counts_the_embedding_once(command_line, tmp_path):
    code, out, err = command_line(
        "train", small.FILE, "--workdir", tmp_path / "run", "--dry-run", "True", *OPTIONS
    )
    assert code == 0, err
    rows = re.findall(r"\| (.+) \| ([\d,]+) \|", out.split("\n\n")[0])
    parts = {part: int(number.replace(",", "")) for part, number in rows}
    assert parts["target embedding"] == SIZE * parts["output"] > 0  # a bias for each word
    assert parts.pop("all") == sum(parts.values())
    code, _, err = command_line("train", small.FILE, "--workdir", tmp_path / "run", *OPTIONS[:2])
    assert (code, err.count("\n")) == (2, 1)
    assert "model.readout_size is 29 and model.embedding_size is 31: set both" in err


def test_vmapped_seeds_train_as_each_alone(tied, tmp_path):
    folders = [tmp_path / "1", tmp_path / "2"]
    assert train_vmapped([config(seed=1), config(seed=2)], folders) == {}
    one, two = (bj.load(folder).params for folder in folders)
    assert_equal(one, tied.params, rtol=0, atol=2e-4)
    assert not np.allclose(one["target_embedding"]["E"], two["target_embedding"]["E"], atol=1e-2)


def test_bfloat16_products_train_and_translate(tmp_path):
    rounded = bj.train(config(compute_dtype="bfloat16"), tmp_path / "run")
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(rounded.params))
    assert len(rounded.translate(LINES)) == len(LINES)
