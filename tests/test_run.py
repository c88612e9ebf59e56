"""The Python interface as in the design, line by line, and composition: check, prepare, train."""

import dataclasses
import functools
import json
import logging
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bahdanau_jax as bj
from bahdanau_jax import training
from bahdanau_jax.data.store import store
from bahdanau_jax.data.tokens import codec
from bahdanau_jax.run import prepare
from bahdanau_jax.run_folder import METRICS
from tests import small
from tests.model import worlds

LINES = ["We sleep.", "", "I am tired in Canada."]


@pytest.fixture(scope="module")
def run(trained):
    return bj.load(trained[0])


def test_a_trained_model(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    best = run.translate(["The man saw the European Economic Area ."], beam_size=12)[0]
    assert isinstance(best, bj.Hypothesis)
    assert isinstance(best.text, str) and best.score < 0
    assert best.alpha.shape == (len(best.tokens), len(best.source_tokens))
    assert best.source_tokens[-2:] == (".", "</s>")
    bj.figures.alignment(best).savefig("alignment.svg")
    assert "European" in (tmp_path / "alignment.svg").read_text()


def test_a_run_translates_forces_and_evaluates(run, tmp_path):
    best = run.translate(LINES)
    ranked = run.translate(LINES, n_best=3)
    assert [row[0] for row in ranked] == best
    assert [len(row) for row in ranked] == [3, 1, 3]  # the blank line has one
    forced = run.score(LINES, [h.text for h in best])
    assert [h.text for h in forced] == [h.text for h in best]
    scores = run.evaluate(LINES, ["Nous dormons."] * 3, tmp_path / "out")
    assert scores["sentences"] == 3 and 0 <= scores["BLEU"] <= 100
    lines = (tmp_path / "out" / "translations.txt").read_text().split("\n")
    assert lines == [*(h.text for h in best), ""]
    with pytest.raises(ValueError, match="3 sources but 1 targets"):
        run.score(LINES, ["one"])
    with pytest.raises(ValueError, match="beam of 3: set the beam size to at least 5"):
        run.translate(LINES, n_best=5)


value_and_grad = jax.jit(jax.value_and_grad(bj.loss, argnums=1), static_argnums=0)


@pytest.fixture(scope="module")
def research():
    config = bj.Config(model=bj.ModelConfig(**worlds.SIZES))
    return config, jax.tree.map(jnp.asarray, worlds.batch(worlds.pairs()))


@pytest.mark.slow
def test_functional_research(research):
    config, batch = research
    key = jax.random.key(0)
    model = bj.Seq2Seq(config.model)
    params = model.init(key, batch)["params"]
    loss, grads = value_and_grad(config.model, params, batch)
    assert loss.shape == () and loss > 0
    assert jax.tree.structure(grads) == jax.tree.structure(params)
    memory = bj.encode(config.model, params, batch.source, batch.source_mask)
    assert memory.annotations.shape == (*batch.source.shape, 2 * config.model.hidden_size)
    ten_models = jax.jit(jax.vmap(model.init, (0, None)))(jax.random.split(key, 10), batch)
    for leaf, one in zip(
        jax.tree.leaves(ten_models["params"]), jax.tree.leaves(params), strict=True
    ):
        assert leaf.shape == (10, *one.shape)
    embedding = ten_models["params"]["source_embedding"]["E"]
    assert not np.allclose(embedding[0], embedding[1])


def init_cosine(key, config):
    return {"U": 0.3 * jax.random.normal(key, (2 * config.hidden_size, config.hidden_size))}


def project(config, params, annotations, mask):
    return annotations @ params["U"]


def linear(params):
    return None


def cosine_score(params, query, keys):
    length = jnp.linalg.norm(query, axis=-1)[:, None] * jnp.linalg.norm(keys, axis=-1)
    return jnp.einsum("bh,bsh->bs", query, keys) / (1e-3 + length)


cosine = bj.attention.Score(init=init_cosine, keys=project, query=linear, score=cosine_score)


def test_an_attention_of_ones_own(research):
    config = dataclasses.replace(research[0].model, attention=f"{__name__}:cosine")
    bj.check(bj.Config(model=config))
    batch = research[1]
    params = bj.Seq2Seq(config).init(jax.random.key(0), batch)["params"]
    _, grads = value_and_grad(config, params, batch)
    assert jnp.abs(grads["attention"]["U"]).max() > 0


def test_all_public_names_are_there():
    for name in bj.__all__:
        assert getattr(bj, name) is not None
        assert name in dir(bj)
    with pytest.raises(AttributeError, match="has no attribute 'Seq3Seq'"):
        _ = bj.Seq3Seq


def test_another_seed_is_another_run(trained, tmp_path):
    shutil.copy(trained[0] / "config.json", tmp_path)
    training_ = dataclasses.replace(small.config.training, seed=2)
    with pytest.raises(ValueError, match="holds another run: its training.seed is 1, not 2"):
        bj.train(dataclasses.replace(small.config, training=training_), tmp_path)


def test_check_finds_settings_that_do_not_fit():
    config = bj.Config(model=bj.ModelConfig(encoder_directions="forward"))
    with pytest.raises(ValueError, match="model.initial_state is backward, but"):
        bj.check(config)
    with pytest.raises(ValueError, match="no model.order 'papr'; known: .*did you mean 'paper'"):
        bj.check(bj.Config(model=bj.ModelConfig(order="papr")))


def test_coverage_needs_attention():
    optimizer = bj.OptimizerConfig(coverage=0.2)
    with pytest.raises(ValueError, match="^optimizer.coverage is 0.2, but model.attention none"):
        bj.check(bj.Config(model=bj.ModelConfig(attention="none"), optimizer=optimizer))
    with pytest.raises(ValueError, match="^optimizer.coverage is -1, but should be at least 0"):
        bj.check(bj.Config(optimizer=dataclasses.replace(optimizer, coverage=-1)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"readout_inputs": "c", "attention": "none"},
            "model.readout_inputs is c, but with model.attention none the context does not depend",
        ),
        ({"readout_inputs": "y"}, "no model.readout_inputs 'y'; known: c, s, sc, sy, syc, yc"),
        ({"readout_inputs": ""}, "no model.readout_inputs ''; known: c, s, sc, sy, syc, yc"),
        ({"cell": "mlp", "hidden_size": 1}, "model.hidden_size is 1, but the layers of model.cell"),
    ],
)
def test_check_refuses_a_model_that_cannot_work(settings, message):
    with pytest.raises(ValueError, match=f"^{message}") as refused:
        bj.check(bj.Config(model=bj.ModelConfig(**settings)))
    assert "\n" not in str(refused.value)


def test_a_vocabulary_of_another_size_is_refused(tmp_path):
    config = dataclasses.replace(
        small.config, model=dataclasses.replace(small.config.model, source_vocabulary=5)
    )
    with pytest.raises(ValueError, match="source embedding has 5 rows: leave out model.source_v"):
        bj.train(config, tmp_path)


def test_prepared_text_is_not_prepared_again(tmp_path, monkeypatch):
    prepared = prepare(small.config, str(tmp_path))
    assert prepared["kept"] == 300 and prepared["vocabulary"]["source"] > 50
    monkeypatch.setattr(codec, "learn_tokenised", lambda *_: pytest.fail("learned again"))
    monkeypatch.setattr(store, "write", lambda *_: pytest.fail("encoded again"))
    assert prepare(small.config, tmp_path) == prepared
    limited = dataclasses.replace(small.config.data, limit_words=500)
    few = prepare(dataclasses.replace(small.config, data=limited), tmp_path)
    assert few["tokens"] == prepared["tokens"] == prepared["epoch"]["tokens"]
    assert prepared["epoch"]["pairs"] == 300 and 50 < few["epoch"]["pairs"] < 250
    assert 490 < few["epoch"]["tokens"]["source"] <= 500


def test_config_json_is_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    small.config.save(path)
    assert bj.Config.load(path) == small.config
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: pytest.fail("killed"))
    with pytest.raises(pytest.fail.Exception):
        bj.Config().save(path)
    assert path.read_bytes() == before


class Compiled:
    """The names of the programs compiled, in any thread, by JAX's own account."""

    def __init__(self):
        self.events = []
        self.listen = lambda event, *_, **names: (
            self.events.append(names.get("fun_name", "")) if event == self.EVENT else None
        )

    EVENT = "/jax/core/compile/backend_compile_duration"

    def __enter__(self):
        jax.monitoring.register_event_duration_secs_listener(self.listen)
        return self

    def __exit__(self, *_):
        jax._src.monitoring.unregister_event_duration_listener(self.listen)


CELLS = dataclasses.replace(
    small.config,
    data=dataclasses.replace(small.config.data, dev="", test="", batch_size=20, shapes=2),
    model=dataclasses.replace(small.config.model, cell="tanh", attention="dot"),
    training=bj.TrainingConfig(steps=15, checkpoint_every=10),
)


@pytest.fixture
def programs(monkeypatch):
    """(shapes of every step made, names of all programs compiled) since the last clear()."""
    made, real = [], training.trainer.Ahead

    class Watched(real):
        def __call__(self, state, batch):
            made.append(batch.source.shape + batch.target.shape)
            return super().__call__(state, batch)

    monkeypatch.setattr(training.trainer, "Ahead", Watched)
    with Compiled() as compiled:
        yield made, compiled.events


@pytest.mark.slow
def test_an_epoch_compiles_a_program_for_each_shape_and_no_more(tmp_path, programs):
    made, compiled = programs
    found = bj.train(CELLS, tmp_path / "run")
    assert CELLS.training.steps == -(-300 // found.config.data.batch_size)  # an epoch
    assert len(made) == 15
    shapes = set(made)
    assert 1 < len(shapes) <= CELLS.data.shapes
    assert sum("step" in name for name in compiled) == len(shapes)
    made.clear()
    compiled.clear()
    longer = dataclasses.replace(CELLS.training, steps=20)
    again = bj.train(
        dataclasses.replace(CELLS, training=longer),
        tmp_path / "run",
        evaluators=[bj.Evaluator("weights", _looked_at)],
    )
    assert len(made) == 5 and set(made) <= shapes
    assert sum("step" in name for name in compiled) == len(set(made))
    lines = [json.loads(line) for line in (tmp_path / "run" / METRICS).read_text().splitlines()]
    (evaluated,) = [line for line in lines if "weights_bias" in line]
    bias = np.asarray(again.params["output"]["b_w"], np.float64)
    assert evaluated["step"] == 20 and evaluated["weights_bias"] == bias.sum()
    assert "weights_drawn" not in evaluated  # a picture, for TensorBoard
    events = b"".join(path.read_bytes() for path in (tmp_path / "run/tensorboard").iterdir())
    assert b"weights_drawn" in events and b"weights_bias" in events


def _looked_at(state) -> dict:
    """A number, and a picture."""
    bias = np.asarray(state.weights["output"]["b_w"], np.float64)
    return {"bias": bias.sum(), "drawn": np.zeros((4, 6, 3), np.uint8)}


def test_the_parameters_are_those_of_the_whole_network(research):
    """`init` draws what the Flax module draws from the same key, bit for bit."""
    config, key = research[0].model, jax.random.key(3)
    flax = bj.Seq2Seq(config).init(key, research[1])["params"]
    ours = bj.init(config, key)
    assert jax.tree.structure(flax) == jax.tree.structure(ours)
    jax.tree.map(np.testing.assert_array_equal, flax, ours)
    with pytest.raises(ValueError, match="model.source_vocabulary is 0: set it to the size"):
        bj.init(dataclasses.replace(config, source_vocabulary=0), key)


def test_the_first_line_says_how_long_the_start_took(trained):
    lines = (trained[0] / METRICS).read_text().splitlines()
    first, *others = map(json.loads, lines)
    assert first["first_step_seconds"] > first["first_program_seconds"] > 0
    assert not any("first_step_seconds" in line for line in others)
    assert re.search(
        r"first step after \d+\.\d s; its program (compiled|found on disk) in", trained[1].stderr
    )


def test_blank_lines_have_empty_translations(trained):
    """Blank lines do not change the translations of the other lines."""
    run = bj.load(trained[0])
    first, blank, last = run.translate(["We sleep .", " \t", "I arrive ."], n_best=2)
    assert [h.text for h in blank] == [""] and blank[0].alpha.shape == (0, 0)
    assert [first, last] == run.translate(["We sleep .", "I arrive ."], n_best=2)
    for read in (run.translate, run.encode):
        with pytest.raises(TypeError, match="expected a list of lines, but got the text 'We sleep"):
            read("We sleep .")
    harden = bj.experiments.interventions.harden()
    with pytest.raises(TypeError, match="expected a list of lines, but got the text 'We sleep"):
        bj.experiments.translate(run, "We sleep .", harden)
    changed = functools.partial(bj.experiments.score, run, intervention=harden)
    as_batch = functools.partial(bj.experiments.as_batch, run)
    for pairs in (run.score, run.align, run.evaluate, as_batch, changed):
        with pytest.raises(TypeError, match="expected a list of sources, but got the text 'We"):
            pairs("We sleep .", "No.")
        with pytest.raises(TypeError, match="expected a list of (targets|references), but got the"):
            pairs(["We sleep ."], "No.")


def test_what_is_not_measured_is_a_warning_of_the_package(tmp_path, monkeypatch, caplog, capfd):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).write_text("一二三四五六七八\n" * 6, encoding="utf-8")
    config = bj.Config(data=bj.DataConfig(train="text:a,b", batch_size=2))
    with caplog.at_level(logging.WARNING, "bahdanau_jax.run"):
        prepare(config, tmp_path / "run")
    empty, source, target = caplog.messages
    assert empty.startswith("data.dev is empty: ") and "data.test is empty" in empty
    assert source.startswith("most sentences on the source side of data.train have no space")
    assert "the target side" in target
    assert capfd.readouterr() == ("", "")


def test_a_training_that_cannot_begin_closes_its_logs(tmp_path, monkeypatch):
    """A later training of the process would write its compilations into them."""

    def fail(*_):
        raise MemoryError("no room for a batch")

    monkeypatch.setattr(training.trainer, "compiled_ahead", fail)
    with pytest.raises(MemoryError):
        bj.train(small.config, tmp_path)
    log = tmp_path / "compilations.jsonl"
    before = log.read_bytes()
    jax.jit(lambda x: x * 3.25 + 1.75)(jnp.arange(7.0)).block_until_ready()
    assert log.read_bytes() == before
