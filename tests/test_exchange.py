"""Exported weights are imported as a run that translates and trains."""

import codecs
import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest
import safetensors
from safetensors import numpy as tensors

import bahdanau_jax as bj
from bahdanau_jax import checkpoints, exchange
from tests import oracles, small
from tests.model.test_groundhog import VS, VT, arrays, theirs

LINES = ["We sleep.", "The man is tired."]


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "model.safetensors"
    count = exchange.export_weights(trained[0], path)
    return path, count


def test_what_is_exported_is_the_best_model_whole(exported, trained):
    path, count = exported
    run, flat = bj.load(trained[0]), tensors.load_file(path)
    expected = checkpoints.flatten(run.params)
    assert {name.replace(".", "/") for name in flat} == set(expected)
    for name, array in flat.items():
        assert array.tobytes() == np.asarray(expected[name.replace(".", "/")]).tobytes()
    assert count == sum(array.size for array in flat.values())
    with safetensors.safe_open(path, "numpy") as file:
        metadata = file.metadata()
    assert bj.Config.from_json(metadata["config"]) == run.config
    assert set(json.loads(metadata["vocabulary"])) == {"settings.json", "source.txt", "target.txt"}


def test_an_imported_run_translates_as_the_exported_one(exported, trained, tmp_path):
    assert exchange.import_weights(exported[0], tmp_path / "new") == exported[1]
    ours, theirs_ = bj.load(tmp_path / "new"), bj.load(trained[0])
    assert jax.tree.all(jax.tree.map(np.array_equal, ours.params, theirs_.params))
    assert ours.translate(LINES, beam_size=1) == theirs_.translate(LINES, beam_size=1)
    with pytest.raises(ValueError, match="new holds a run already: choose another folder"):
        exchange.import_weights(exported[0], tmp_path / "new")


@pytest.mark.slow
def test_an_imported_run_trains_on(exported, tmp_path):
    exchange.import_weights(exported[0], tmp_path / "new")
    before = bj.load(tmp_path / "new").params
    config = dataclasses.replace(
        small.config, training=dataclasses.replace(small.config.training, steps=2, evaluate_every=0)
    )
    after = bj.train(config, tmp_path / "new").params
    moved = [
        float(np.abs(np.asarray(a) - np.asarray(b)).max())
        for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True)
    ]
    assert 0 < max(moved) < 0.1


def broken(path, **changes):
    """The file at `path` written again with other metadata or tensors."""
    with safetensors.safe_open(path, "numpy") as file:
        metadata = dict(file.metadata())
    flat = tensors.load_file(path)
    flat |= changes.pop("flat", {})
    metadata = {k: v for k, v in (metadata | changes).items() if v is not None}
    tensors.save_file({k: v for k, v in flat.items() if v is not None}, path, metadata)


FAULTS = {
    r"output\.|output/b_w is nothing there": {"flat": {"output.b_w": None}},
    r"output/b_w is float32\[3\] there, but": {"flat": {"output.b_w": np.zeros(3, np.float32)}},
    r"spare is float32\[3\] there, .* has nothing": {"flat": {"spare": np.zeros(3, np.float32)}},
    "was not exported by bahdanau": {"format": "pt"},
    "its metadata are damaged": {"config": "{"},
    "is not the name of a vocabulary file": {"vocabulary": json.dumps({"../a": "YQ=="})},
    "copy.safetensors: no file settings.json: the vocabulary folder is": {"vocabulary": "{}"},
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_file_that_will_not_do(exported, tmp_path, message):
    path = tmp_path / "copy.safetensors"
    shutil.copy(exported[0], path)
    broken(path, **FAULTS[message])
    with pytest.raises((ValueError, OSError), match=message):
        exchange.import_weights(path, tmp_path / "new")
    assert [file.name for file in (tmp_path / "new").iterdir()] == [".lock"]


def test_values_that_are_not_finite(exported, tmp_path):
    path = tmp_path / "copy.safetensors"
    shutil.copy(exported[0], path)
    bias = tensors.load_file(path)["output.b_w"]
    broken(path, flat={"output.b_w": np.full_like(bias, np.nan)})
    with pytest.raises(ValueError, match="output/b_w holds values that are not finite"):
        exchange.import_weights(path, tmp_path / "new")


@pytest.mark.parametrize(
    ("format", "message"),
    [("pt", "was not exported by bahdanau"), (exchange.FORMAT, "a type that NumPy lacks")],
)
def test_weights_in_eight_bits(tmp_path, format, message):
    tensor = {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}
    header = json.dumps({"__metadata__": {"format": format}, "output.b_w": tensor}).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
    with pytest.raises(ValueError, match=message):
        exchange.import_weights(path, tmp_path / "new")


def test_files_of_another_kind(tmp_path):
    for name, message in (
        ("a.safetensors", "is not a safetensors file, or it is damaged"),
        ("a.npz", "holds no vocabulary: give --words SOURCE,TARGET"),
        ("a.bin", "should end in one of .safetensors, .npz"),
    ):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(ValueError, match=message):
            exchange.import_weights(tmp_path / name, tmp_path / "new")


def test_a_file_that_is_not_there_leaves_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.npz does not exist"):
        exchange.import_weights(tmp_path / "no.npz", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def words(folder, rows: int, side: str):
    path = folder / f"{side}.words"
    path.write_text("".join(f"{side}{i}\n" for i in range(2, rows - 1)))
    return path


def test_groundhogs_weights_become_a_run(tmp_path):
    """Words have GroundHog's ids, and teacher forcing gives the scores of its equations."""
    weights = arrays()
    np.savez(tmp_path / "search_model.npz", **weights)
    lists = words(tmp_path, VS, "s"), words(tmp_path, VT, "t")
    lists[0].write_bytes(codecs.BOM_UTF8 + lists[0].read_bytes())  # as an editor may save it
    count = exchange.import_weights(tmp_path / "search_model.npz", tmp_path / "run", lists)
    assert count == sum(array.size for array in weights.values())
    run = bj.load(tmp_path / "run")
    source, target = run.codecs[0].encode("s2 s9 strange s21"), run.codecs[1].encode("t3 t27 t2")
    assert (source, target) == ([2, 9, 1, 21, 0], [3, 27, 2, 0])
    log_p = oracles.groundhog_log_probabilities(weights, theirs(source, VS), theirs(target, VT))
    expected = log_p[np.arange(4), theirs(target, VT)].sum()
    (forced,) = run.score(["s2 s9 strange s21"], ["t3 t27 t2"])
    assert forced.score == pytest.approx(expected, rel=1e-5)


def test_groundhogs_words_must_fit(tmp_path):
    np.savez(tmp_path / "a.npz", **arrays())
    good, short = words(tmp_path, VS, "s"), words(tmp_path, VT - 1, "t")
    with pytest.raises(ValueError, match="t.words has 25 lines, but the weights are for 26 words"):
        exchange.import_weights(tmp_path / "a.npz", tmp_path / "run", (good, short))
    twice = tmp_path / "twice"
    twice.write_text("a\n" * 26)
    with pytest.raises(ValueError, match="the target words cannot be a vocabulary"):
        exchange.import_weights(tmp_path / "a.npz", tmp_path / "run", (good, twice))
    (tmp_path / "latin").write_bytes(b"\xe9\n" * 26)
    with pytest.raises(ValueError, match="latin is no UTF-8 text"):
        exchange.import_weights(tmp_path / "a.npz", tmp_path / "run", (good, tmp_path / "latin"))
