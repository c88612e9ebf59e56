"""Tied embeddings: the model equals the untied one whose output matrix is E_yᵀ."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.config import Config, ModelConfig
from bahdanau_jax.model import READOUT_INPUTS, Seq2Seq, attribution, count, init, shapes
from bahdanau_jax.model.loss import sums
from bahdanau_jax.model.readout import init_output, tie_faults
from bahdanau_jax.variants import check
from tests.model import worlds
from tests.model.worlds import CONFIGS, compiled, on_device, parameters, relative, twin, untied

TIED = [name for name, config in CONFIGS.items() if config.tied_embeddings]
each_model = pytest.mark.parametrize("name", worlds.each("tied", of=TIED))
WAYS = ("deferred", "autodiff")


def joined(gradient):
    """The gradient of the tied model from that of its twin."""
    both = gradient["target_embedding"]["E"] + gradient["output"]["W_o"].T
    output = {name: leaf for name, leaf in gradient["output"].items() if name != "W_o"}
    embedding = gradient["target_embedding"] | {"E": both}
    return gradient | {"target_embedding": embedding, "output": output}


def assert_same(ours, theirs, tolerance=1e-10):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for leaves in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        a, b = (np.asarray(leaf, np.float64) for leaf in leaves)
        assert np.linalg.norm(a - b) <= tolerance * np.linalg.norm(b)


@functools.cache
def results(name):
    """`everything` of the tied model and of its twin in float64, as NumPy arrays."""
    config, b = CONFIGS[name], worlds.batch(worlds.pairs(), 2, 1, fillers=1)
    params = parameters(config, np.float64)
    with jax.enable_x64(True):
        found = [
            worlds.everything(config, params, b, WAYS),
            worlds.everything(untied(config), twin(params), b, WAYS),
        ]
        return jax.tree.map(np.asarray, found)


@each_model
def test_probabilities_and_losses_are_those_of_the_twin(name):
    ours, theirs = results(name)
    for field in ("memory", "log_p", "alpha", "smoothed", "covered", "sums"):
        assert_same(getattr(ours, field), getattr(theirs, field))
    assert np.ptp(ours.log_p) > 1


@pytest.mark.parametrize("way", WAYS)
@each_model
def test_the_gradient_of_the_embedding_is_the_sum_of_both(name, way):
    ours, theirs = (found.gradients[way] for found in results(name))
    assert_same(ours, joined(theirs))
    both = theirs["target_embedding"]["E"], theirs["output"]["W_o"].T
    assert all(relative(ours["target_embedding"]["E"], part) > 1e-2 for part in both)
    assert np.all(ours["target_embedding"]["E"] != 0)  # the softmax reads the rows of all words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "compute_dtype"),
    [("tied", "float32"), ("tied_readout", "bfloat16")],
)
def test_dropout_and_smoothing_are_those_of_the_twin(name, compute_dtype):
    config = dataclasses.replace(
        CONFIGS[name],
        compute_dtype=compute_dtype,
        embedding_dropout=0.2,
        annotation_dropout=0.3,
        readout_dropout=0.4,
    )
    b, params = on_device(worlds.batch(worlds.pairs())), on_device(parameters(config))

    @functools.partial(compiled, static_argnums=0)
    def gradient(config, params):
        return jax.value_and_grad(
            lambda params: sums(config, params, b, jax.random.key(3), smoothing=0.1).loss
        )(params)

    loss, ours = gradient(config, params)
    expected, theirs = gradient(untied(config), twin(params))
    assert loss == pytest.approx(float(expected), rel=1e-5)
    assert_same(ours, joined(theirs), 1e-5 if compute_dtype == "float32" else 1e-3)


@pytest.mark.slow
def test_attributions_to_source_words_are_those_of_the_twin():
    config, params = CONFIGS["tied"], parameters(CONFIGS["tied"], np.float64)
    b = worlds.batch(worlds.pairs())
    with jax.enable_x64(True):
        attribute = compiled(attribution.gradient_times_input, static_argnums=0)
        (_, ours), (_, theirs) = (
            attribute(*each, on_device(b))
            for each in ((config, params), (untied(config), twin(params)))
        )
    real = b.target_mask[:, :, None] & b.source_mask[:, None]
    np.testing.assert_allclose(np.asarray(ours)[real], np.asarray(theirs)[real], atol=1e-10)
    assert np.abs(np.asarray(ours)[real]).max() > 1e-2


@pytest.mark.slow
@each_model
def test_no_second_matrix_is_a_parameter(name):
    config = CONFIGS[name]
    tied, other = shapes(config), shapes(untied(config))
    assert "W_o" not in tied["output"] and tied["output"]["b_w"].shape == (29,)
    assert tied["target_embedding"]["E"].shape == other["output"]["W_o"].shape[::-1] == (29, 3)
    assert count(other) - count(tied) == 29 * 3
    b = on_device(worlds.batch(worlds.pairs()))
    of_module = compiled(lambda key: Seq2Seq(config).init(key, b)["params"])(jax.random.key(1))
    assert_same(of_module, init(config, jax.random.key(1)), 1e-6)


LARGE = dict(
    source_vocabulary=211,
    target_vocabulary=223,
    embedding_size=101,
    hidden_size=103,
    alignment_size=107,
)
AS_WIDE = {"readout_size": 101}, {"readout_size": 109, "output_size": 101}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("paper", AS_WIDE[0]),
        ("scaled", AS_WIDE[1]),
        ("glorot", AS_WIDE[0]),
    ],
)
def test_the_first_loss_is_that_of_equal_probabilities(name, sizes):
    """A tied W_o is drawn as W_o is, so the logits are small and the loss near ln V a word."""
    config = ModelConfig(**LARGE, **sizes, init=name, tied_embeddings=True)
    b = on_device(worlds.batch(worlds.pairs(count=20, longest=12)))
    params = compiled(functools.partial(init, config))(jax.random.key(4))
    found = compiled(functools.partial(sums, config))(params, b)
    assert float(found.nll / found.words) == pytest.approx(math.log(223), rel=0.1)
    own = init_output(jax.random.key(5), untied(config))["W_o"]
    scale = np.std(params["target_embedding"]["E"])
    assert float(scale) == pytest.approx(float(np.std(own)), rel=0.03)


@pytest.mark.slow
def test_vmapped_seeds_have_the_gradients_of_each():
    config, b = CONFIGS["tied_readout"], on_device(worlds.batch(worlds.pairs()))
    keys = jax.random.split(jax.random.key(2), 2)

    def gradient(key):
        params = init(config, key)
        return jax.grad(lambda params: sums(config, params, b).loss)(params)

    many = compiled(jax.vmap(gradient))(keys)
    for i, key in enumerate(keys):
        assert_same(jax.tree.map(lambda leaf, i=i: leaf[i], many), compiled(gradient)(key), 1e-5)
    E = many["target_embedding"]["E"]
    assert E.shape == (2, 29, 3) and not jnp.allclose(E[0], E[1])


# Changes of the default sizes -> the one fault that they have.
FAULTS = {
    "model.readout_size is 500 and model.embedding_size is 620: set both": {},
    "model.output_size is 500 and model.embedding_size is 620: set both": {"output_size": 500},
    "model.output_size is 300 and model.embedding_size is 500: set both": {
        "embedding_size": 500,
        "output_size": 300,
    },
    "model.feed_previous is False and model.readout_inputs is sc, so no part": {
        "embedding_size": 500,
        "feed_previous": False,
        "readout_inputs": "sc",
    },
}


@pytest.mark.parametrize("message", FAULTS)
def test_sizes_that_do_not_fit_are_refused(message):
    model = ModelConfig(**FAULTS[message], tied_embeddings=True)
    line = f"model.tied_embeddings is True, but {message}"
    with pytest.raises(ValueError, match=line) as refused:
        check(Config(model=model))
    assert len(str(refused.value).splitlines()) == 1
    sized = dataclasses.replace(model, source_vocabulary=7, target_vocabulary=5)
    with pytest.raises(ValueError, match=line):
        init(sized, jax.random.key(0))
    check(Config(model=untied(model)))


def test_sizes_that_fit_are_accepted():
    for sizes in ({"embedding_size": 500}, {"output_size": 620}, {"readout_size": 620}):
        check(Config(model=ModelConfig(**sizes, tied_embeddings=True)))
    for inputs in READOUT_INPUTS:
        config = ModelConfig(
            embedding_size=500, readout_inputs=inputs, feed_previous=False, tied_embeddings=True
        )
        assert len(list(tie_faults(config))) == ("y" not in inputs)
    unknown = ModelConfig(readout_inputs="xyz", tied_embeddings=True, feed_previous=False)
    with pytest.raises(ValueError, match=r"no model.readout_inputs 'xyz'(.|\n)*tied_embeddings is"):
        check(Config(model=unknown))
