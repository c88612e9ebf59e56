"""Dropout: the keys and the distribution of its masks."""

import dataclasses
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.batch import EOS
from bahdanau_jax.model.dropout import Place, dropout, kept_units, row_keys, word_dropout
from bahdanau_jax.model.loss import sums
from tests import oracles
from tests.model.worlds import (
    CONFIGS,
    IN_EACH_ORDER,
    batch,
    compiled,
    each,
    on_device,
    pairs,
    parameters,
)

TIME, FEATURES = 7, 5  # an odd number of units
KEY = jax.random.key(3)
run = compiled(dropout, static_argnums=(1, 2))
keys_of = compiled(row_keys, static_argnums=1)


def ones(rows, time=TIME, dtype=np.float32):
    return np.ones((time, rows, FEATURES), dtype)


def kept(rows=11, key=KEY, place=Place.SOURCE_EMBEDDING, rate=0.5, time=TIME):
    return np.asarray(run(keys_of(key, rows), place, rate, ones(rows, time))) != 0


def test_rate_0_and_no_key_are_the_identity():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(TIME, 3, FEATURES)), jnp.float32)
    assert row_keys(None, 3) is None
    assert dropout(None, Place.SOURCE_EMBEDDING, 0.5, x) is x
    assert dropout(row_keys(KEY, 3), Place.SOURCE_EMBEDDING, 0.0, x) is x


def test_a_mask_belongs_to_its_row():
    many = kept(11)
    assert np.array_equal(kept(2), many[:, :2])
    keys = keys_of(KEY, 11)
    alone = np.asarray(run(keys[4:5], Place.SOURCE_EMBEDDING, 0.5, ones(1))) != 0
    assert np.array_equal(alone, many[:, 4:5])
    rows = {many[:, row].tobytes() for row in range(11)}
    assert len(rows) == 11


def test_padding_in_time_leaves_the_mask_of_a_row():
    assert np.array_equal(kept(time=TIME + 4)[:TIME], kept())


def test_places_and_keys_differ():
    masks = [
        kept(),
        kept(place=Place.ANNOTATION),
        kept(place=Place.READOUT),
        kept(key=jax.random.key(4)),
    ]
    for i, a in enumerate(masks):
        for b in masks[:i]:
            assert 0.3 < np.mean(a == b) < 0.7
    assert np.array_equal(kept(), kept())


def test_the_dropouts_of_a_model_have_places_of_their_own(monkeypatch):
    config = CONFIGS["default"]
    params = jax.tree.map(jnp.asarray, parameters(config))  # first: this traces the model, too
    places = []

    def drop(keys, place, rate, x):
        places.append(place)
        return x

    for name in ("encoder", "decoder"):
        module = importlib.import_module(f"bahdanau_jax.model.{name}")
        for kind in ("dropout", "word_dropout"):
            monkeypatch.setattr(module, kind, drop)
    jax.eval_shape(lambda: sums(config, params, on_device(batch(pairs())), KEY))
    assert len(places) == len(set(places)) == 6


def test_no_place_has_the_masks_of_another():
    """With other numbers, a training could not go on with the masks it began with."""
    assert [(each.name, each.value) for each in Place] == [
        ("SOURCE_EMBEDDING", 0),
        ("ANNOTATION", 1),
        ("TARGET_EMBEDDING", 2),
        ("READOUT", 3),
        ("SOURCE_WORD", 4),
        ("TARGET_WORD", 5),
        ("ENCODER_STATE", 6),
        ("DECODER_STATE", 7),
    ]
    assert len(Place.__members__) == len(Place)  # no name is an alias


def test_word_dropout_drops_all_units_of_a_word():
    x = jnp.asarray(np.random.default_rng(1).normal(size=(97, 101, FEATURES)), jnp.float32)
    keys = keys_of(KEY, 101)
    dropped = np.asarray(
        compiled(word_dropout, static_argnums=(1, 2))(keys, Place.SOURCE_WORD, 0.3, x)
    )
    words = (dropped != 0).all(-1)
    assert np.array_equal(words, (dropped != 0).any(-1))
    assert np.allclose(dropped, np.where(words[..., None], x / 0.7, 0), rtol=1e-6)
    assert abs(np.mean(~words) - 0.3) < 4 * (0.3 * 0.7 / words.size) ** 0.5
    assert word_dropout(keys, Place.SOURCE_WORD, 0.0, x) is x
    assert word_dropout(None, Place.SOURCE_WORD, 0.3, x) is x


@pytest.mark.parametrize("name", ["default", "words"])
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_word_dropout_reaches_the_words_of_both_sides(rate, name):
    """A word that is dropped has no gradient; without dropout every real word has one."""
    config = dataclasses.replace(CONFIGS[name], word_dropout=rate)
    params, given = parameters(config), on_device(batch(pairs()))
    gradient = compiled(jax.grad(lambda p: sums(config, p, given, KEY).loss))(params)
    for side, ids in {"source": given.source, "target": given.target[:, :-1]}.items():
        seen = np.setdiff1d(ids, EOS)
        moved = np.any(np.asarray(gradient[f"{side}_embedding"]["E"]) != 0, axis=-1)
        assert moved[seen].all() == (rate == 0.0), side


def test_a_rate_next_to_1_drops_next_to_all():
    assert kept(101, rate=0.999_999, time=97).mean() < 0.01


def test_eager_and_compiled_draw_the_same_mask():
    eager = dropout(row_keys(KEY, 3), Place.SOURCE_EMBEDDING, 0.3, jnp.asarray(ones(3)))
    both = compiled(lambda key, x: dropout(row_keys(key, 3), Place.SOURCE_EMBEDDING, 0.3, x))
    assert np.array_equal(eager, both(KEY, ones(3)))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_rate_and_mean(rate):
    x = np.asarray(run(keys_of(KEY, 101), Place.SOURCE_EMBEDDING, rate, ones(101, 97)))
    sigma = (rate * (1 - rate) / x.size) ** 0.5
    assert abs(np.mean(x == 0) - rate) < 4 * sigma
    assert abs(x.mean() - 1) < 4 * sigma / (1 - rate)
    assert np.allclose(x[x != 0], 1 / (1 - rate), rtol=1e-6)
    # Each unit of a sentence is as likely as any other, at the first and the last step too.
    by_unit = np.mean(x == 0, axis=(0, 1))
    assert np.abs(by_unit - rate).max() < 4 * sigma * FEATURES**0.5
    by_step = np.mean(x == 0, axis=(1, 2))
    assert np.abs(by_step - rate).max() < 5 * sigma * 97**0.5


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_dtype_and_gradient_are_those_of_the_mask(dtype):
    keys, x = keys_of(KEY, 3), jnp.asarray(ones(3), dtype)
    out, pullback = jax.vjp(lambda x: dropout(keys, Place.SOURCE_EMBEDDING, 0.5, x), x)
    (gradient,) = pullback(out)
    assert out.dtype == gradient.dtype == dtype
    assert np.array_equal(gradient, out * 2)


def test_padding_and_fillers_leave_the_loss_of_a_key():
    config = dataclasses.replace(
        CONFIGS["default"],
        word_dropout=0.1,
        embedding_dropout=0.2,
        annotation_dropout=0.3,
        readout_dropout=0.4,
    )
    params, total = parameters(config), compiled(sums, static_argnums=0)
    alone = total(config, params, batch(pairs()), KEY)
    assert np.allclose(total(config, params, batch(pairs(), 2, 1, fillers=1), KEY), alone, 1e-5)
    assert abs(total(config, params, batch(pairs()), jax.random.key(4)).loss - alone.loss) > 0.1


RECURRENT = {"gru": ("U", "U_z", "U_r"), "tanh": ("U",), "mlp": ("U",)}
STATE_RATE = 0.4


def with_dropped_rows(config, params, key):
    """The parameters whose recurrent matrices have the rows of dropped units at 0."""
    keys, size = keys_of(key, 1), config.hidden_size
    encoder = kept_units(keys, Place.ENCODER_STATE, STATE_RATE, size, len(params["encoder"]))
    masks = dict(zip(params["encoder"], encoder[:, 0], strict=True))
    masks["decoder"] = kept_units(keys, Place.DECODER_STATE, STATE_RATE, size)[0]

    def scaled(part, mask):
        rows = np.where(mask, 1 / (1 - STATE_RATE), 0)[:, None]
        names = RECURRENT[config.cell]
        matrices = {n: leaf * rows for n, leaf in part.items() if n in names}
        second = {"second": scaled(part["second"], mask)} if "second" in part else {}
        return {**part, **matrices, **second}

    encoder = {n: scaled(part, masks[n]) for n, part in params["encoder"].items()}
    changed = {"encoder": encoder, "decoder": scaled(params["decoder"], masks["decoder"])}
    return {**params, **changed}, masks


@pytest.mark.parametrize(
    "name",
    each("default", "mlp", of=[*IN_EACH_ORDER, "tanh", "mlp", "local_p"]),
)
def test_state_dropout_is_a_model_whose_recurrent_matrices_lack_rows(name):
    """Each sentence has masks of its own, which are those of all its steps."""
    config = dataclasses.replace(CONFIGS[name], state_dropout=STATE_RATE)
    params = parameters(config)
    given = pairs()[1]
    changed, masks = with_dropped_rows(config, params, KEY)
    assert all(0 < mask.mean() < 1 for mask in masks.values())
    expected = oracles.loss(CONFIGS[name], oracles.f64(changed), [given])
    loss = compiled(sums, static_argnums=0)(config, params, batch([given]), KEY).loss
    assert np.isclose(loss, expected, rtol=1e-5)
    without = compiled(sums, static_argnums=0)(CONFIGS[name], params, batch([given])).loss
    assert abs(loss - without) > 1e-2


@pytest.mark.parametrize("name", each("default", of=["default", "luong", "mlp", "words_dot"]))
def test_gradients_of_all_dropouts_equal_autodiff(name):
    config = dataclasses.replace(
        CONFIGS[name],
        word_dropout=0.2,
        embedding_dropout=0.2,
        state_dropout=STATE_RATE,
        annotation_dropout=0.3,
        readout_dropout=0.4,
    )
    params, given = parameters(config), on_device(batch(pairs()))

    def gradient(way):
        chosen = dataclasses.replace(config, gradients=way)
        return compiled(jax.grad(lambda p: sums(chosen, p, given, KEY).loss))(params)

    pair = map(jax.tree.leaves_with_path, map(gradient, ("deferred", "autodiff")))
    for (path, ours), (_, theirs) in zip(*pair, strict=True):
        assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max()), path
