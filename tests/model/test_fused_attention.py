"""Additive attention as kernels, interpreted: against loops, plain operations and differences."""

import dataclasses
import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental.pallas import tpu
from jax.extend.core import jaxprs_in_params
from jax.test_util import check_grads

from bahdanau_jax.model import attention_kernels as kernels
from bahdanau_jax.model import sums
from bahdanau_jax.model.attention import masked_softmax
from bahdanau_jax.model.attention_kernels import ACTIVATIONS, Form
from bahdanau_jax.model.fused_attention import attend
from tests import small
from tests.model import worlds

# A GPU's masked tiles, of which arrays have several here, and a TPU's whole arrays.
FORMS = [Form(device=device, interpret=True) for device in ("gpu", "tpu")]
SIZES = [(3, 5, 37, 41), (2, 67, 7, 130), (1, 1, 1, 1)]  # B, S, A, C


def arrays(sizes, dtype=np.float64, seed=0):
    """query, keys, mask, v_a, annotations. Of several rows the first has no real position."""
    (B, S, A, C), rng = sizes, np.random.default_rng(seed)
    query, keys, v_a, annotations = (
        rng.normal(size=shape).astype(np.float32).astype(dtype)
        for shape in ((B, A), (B, S, A), (A,), (B, S, C))
    )
    mask = rng.random((B, S)) < 0.7
    mask[0], mask[-1, 0] = False, True
    return query, keys, mask, v_a, annotations


def loops(score, query, keys, mask, v_a, annotations):
    """The definition: a sentence, a position, a unit at a time."""
    act = {"additive": np.tanh, "additive_relu": lambda x: max(x, 0.0)}[score]
    context, alpha = np.zeros((len(query), annotations.shape[-1])), np.zeros(mask.shape)
    for b in range(len(query)):
        real = [j for j in range(mask.shape[1]) if mask[b, j]]
        energy = {
            j: sum(v * act(q + k) for v, q, k in zip(v_a, query[b], keys[b, j], strict=True))
            for j in real
        }
        total = sum(np.exp(energy[j] - max(energy.values())) for j in real)
        for j in real:
            alpha[b, j] = np.exp(energy[j] - max(energy.values())) / total
            context[b] += alpha[b, j] * annotations[b, j]
    return context, alpha


def plain(form, query, keys, mask, v_a, annotations):
    """The same in operations that JAX differentiates by itself."""
    act = {"additive": jnp.tanh, "additive_relu": jax.nn.relu}[form.score]
    alpha = masked_softmax(act(query[:, None] + keys) @ v_a, mask)
    return jnp.einsum("bs,bsc->bc", alpha.astype(annotations.dtype), annotations), alpha


@functools.partial(worlds.compiled, static_argnums=(0, 1))
def gradients(function, form, inputs, d):
    """The results and the gradients of all that has one."""
    query, keys, mask, *others = inputs

    def of(query, keys, *others):
        return function(form, query, keys, mask, *others)

    result, pullback = jax.vjp(of, query, keys, *others)
    return result, pullback(d)


def both(form, sizes, dtype, seed=0):
    inputs = jax.tree.map(jnp.asarray, arrays(sizes, dtype, seed))
    rng = np.random.default_rng(seed + 1)
    d = tuple(jnp.asarray(rng.normal(size=(sizes[0], n)), dtype) for n in (sizes[3], sizes[1]))
    return gradients(attend, form, inputs, d), gradients(plain, form, inputs, d)


def close(ours, theirs, tolerance):
    for a, b in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
        assert a.dtype == b.dtype and np.isfinite(a).all()
        assert np.abs(a - b).max() <= tolerance * max(np.abs(b).max(), 1.0)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.device)
@pytest.mark.parametrize("score", ACTIVATIONS)
def test_a_step_is_the_definition(form, score):
    with jax.enable_x64(True):
        inputs = arrays(SIZES[0])
        found = attend(form._replace(score=score), *map(jnp.asarray, inputs))
    for ours, theirs in zip(found, loops(score, *inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    assert not np.asarray(found[1])[0].any() and np.asarray(found[1])[1:].any()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.device)
@pytest.mark.parametrize("sizes", SIZES)
def test_gradients_are_those_of_plain_operations(form, sizes):
    close(*both(form, sizes, np.float32), 1e-5)
    with jax.enable_x64(True):
        close(*both(form, sizes, np.float64), 1e-12)


def test_a_simulated_tpu_finds_the_same():
    """Its memories, its copies between them, and what was never written, which is NaN there."""
    simulated = tpu.InterpretParams(uninitialized_memory="nan")
    close(*both(Form(device="tpu", interpret=simulated), (3, 5, 600, 41), np.float32), 1e-5)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.device)
def test_gradients_of_the_other_activation(form):
    with jax.enable_x64(True):
        close(*both(form._replace(score="additive_relu"), SIZES[0], np.float64), 1e-12)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.device)
def test_bfloat16_inputs_are_added_up_in_float32(form):
    inputs = [jnp.asarray(x) for x in arrays(SIZES[0], np.float32)]
    short = [x if x.dtype == bool else x.astype(jnp.bfloat16) for x in inputs]
    context, alpha = attend(form, *short)
    assert (context.dtype, alpha.dtype) == (jnp.bfloat16, jnp.float32)
    exact = [x if x.dtype == bool else x.astype(jnp.float32) for x in short]
    close(alpha, plain(form, *exact)[1], 1e-5)
    rounded = alpha.astype(jnp.bfloat16).astype(jnp.float32)
    expected = jnp.einsum("bs,bsc->bc", rounded, exact[-1])
    assert np.abs(context.astype(jnp.float32) - expected).max() <= 2**-8 * np.abs(expected).max()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.device)
def test_gradients_are_finite_differences(form):
    with jax.enable_x64(True):
        query, keys, mask, *others = map(jnp.asarray, arrays((2, 3, 5, 2)))

        @jax.jit
        def step(query, keys, *others):
            return attend(form, query, keys, mask, *others)

        check_grads(step, (query, keys, *others), order=1, modes=["rev"])


@settings(max_examples=7)
@given(
    form=st.sampled_from(FORMS),
    sizes=st.tuples(*(st.sampled_from(few) for few in ((1, 3), (1, 2, 19), (1, 5, 18), (1, 33)))),
    seed=st.integers(0, 99),
)
def test_any_sizes_and_masks(form, sizes, seed):
    with jax.enable_x64(True):
        close(*both(form, sizes, np.float64, seed), 1e-12)


def of_model(order, ways, dtype, products="float32"):
    """(loss, gradients) of a tiny model with dropout, by each way: a kernel and model.gradients."""
    config = dataclasses.replace(
        worlds.CONFIGS["default"],
        order=order,
        products=products,
        annotation_dropout=0.2,
        readout_dropout=0.1,
    )
    b = worlds.on_device(worlds.batch(worlds.pairs(), 1, 1, fillers=1))

    def loss(config, params):
        return sums(config, params, b, jax.random.key(3), 0.1).loss

    def all_ways(params):
        return {
            way: jax.value_and_grad(functools.partial(loss, changed))(params)
            for way in ways
            for changed in [dataclasses.replace(config, attention_kernel=way[0], gradients=way[1])]
        }

    return worlds.compiled(all_ways)(worlds.parameters(config, dtype))


WAYS = [("xla", "deferred"), ("pallas", "deferred"), ("pallas", "autodiff")]


@pytest.mark.parametrize(("order", "ways"), [("paper", 2), ("groundhog", 3), ("luong", 2)])
def test_a_model_learns_the_same(order, ways):
    with jax.enable_x64(True):
        expected, *found = of_model(order, WAYS[:ways], np.float64).values()
    for each in found:
        close(each, expected, 1e-12)


@pytest.mark.parametrize("products", ["float32", "bfloat16"])
def test_a_model_learns_the_same_in_less_precision(products):
    expected, found = of_model("paper", WAYS[:2], np.float32, products).values()
    close(found, expected, 1e-5)
    for ours, theirs in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        assert worlds.relative(ours, theirs) <= 1e-5


def loops_of(jaxpr):
    """The loops over time, inside out: the bodies of scans and while loops."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        for inner in jaxprs_in_params(equation.params):
            if name in ("scan", "while"):
                yield inner
            if name != "pallas_call":
                yield from loops_of(inner)


def kernels_in(jaxpr):
    """The names of all kernels."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "pallas_call":
            yield equation.params["name"]
        else:
            for inner in jaxprs_in_params(equation.params):
                yield from kernels_in(inner)


def largest_sum(jaxpr):
    """The most numbers that an addition of this jaxpr, kernels left out, gives."""
    sizes = [0]
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("add", "add_any"):
            sizes.append(equation.outvars[0].aval.size)
        if equation.primitive.name != "pallas_call":
            sizes += map(largest_sum, jaxprs_in_params(equation.params))
    return max(sizes)


def test_a_step_launches_one_kernel_and_adds_up_nothing_as_large_as_the_keys():
    """In the backward loop the forward kernel does not run again; the keys' gradients come last."""
    config = dataclasses.replace(worlds.CONFIGS["default"], attention_kernel="pallas")
    b = worlds.on_device(worlds.batch(worlds.pairs(), 40, 1))

    def program(kernel):
        changed = dataclasses.replace(config, attention_kernel=kernel)
        loss = jax.grad(lambda params: sums(changed, params, b).loss)
        return jax.make_jaxpr(loss)(worlds.parameters(config)).jaxpr

    fused = program("pallas")
    assert sorted(kernels_in(fused)) == ["backward", "forward", "over_time"]
    in_loops = [found for body in loops_of(fused) if (found := list(kernels_in(body)))]
    assert sorted(in_loops) == [["backward"], ["forward"]]
    keys = b.source.size * config.alignment_size
    assert max(map(largest_sum, loops_of(fused))) < keys
    assert max(map(largest_sum, loops_of(program("xla")))) >= keys


SHAPES = [(80, 60, 1000, 2000, 50), (3, 5, 7, 11, 2), (4096, 200, 999, 1, 1)]  # B, S, A, C, T


@pytest.mark.parametrize(("device", "platform"), [("gpu", "cuda"), ("tpu", "tpu")])
@pytest.mark.parametrize("shape", SHAPES)
def test_kernels_are_lowered_for_devices_that_are_not_here(device, platform, shape):
    """To Triton's and Mosaic's code, as the share that one of several devices has."""
    if device == "gpu" and jax.__version_info__ >= (0, 11):
        pytest.skip("JAX 0.11 makes Triton's code only where there is a GPU: `make accelerator`")
    B, S, A, C, T = shape
    form = Form(device=device)

    def of(*sizes, dtype=jnp.float32):
        return jax.ShapeDtypeStruct((1, *sizes), dtype)

    query, keys, v_a, annotations, alpha = of(B, A), of(B, S, A), of(A), of(B, S, C), of(B, S)
    calls = {
        kernels.forward: (query, keys, of(B, S, dtype=bool), v_a, annotations),
        kernels.backward: (query, keys, v_a, annotations, alpha, of(B, C), alpha),
        kernels.over_time: (of(T, B, A), keys, v_a, of(T, B, S)),
    }
    for kernel, arguments in calls.items():
        whole = jax.jit(jax.vmap(functools.partial(kernel, form))).trace(*arguments)
        text = whole.lower(lowering_platforms=(platform,)).as_text()
        assert {"gpu": "triton", "tpu": "tpu_custom_call"}[device] in text


def test_two_devices_have_a_kernel_each_and_send_one_message():
    found = small.measured(Path(__file__).with_name("two.py"))
    assert found["devices"] == 2
    for backend in ("jit", "pmap"):
        assert found[backend]["worst"] <= 1e-5
        assert found[backend]["messages"] == {"all-reduce": 1}


def test_a_score_that_the_kernels_lack_is_refused():
    config = dataclasses.replace(worlds.CONFIGS["dot"], attention_kernel="pallas")
    b = worlds.on_device(worlds.batch(worlds.pairs()))
    with pytest.raises(ValueError, match="pallas is for model.attention additive and add"):
        sums(config, worlds.parameters(config), b)
