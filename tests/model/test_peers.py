"""The model against other libraries' definitions of its parts, with the same weights."""

import dataclasses

import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import encode
from bahdanau_jax.model.decoder import teacher_force
from bahdanau_jax.model.encoder import bidirectional
from tests.model.worlds import SIZES, batch, compiled, parameters

ONE_WAY = ModelConfig(**SIZES, encoder_directions="forward", initial_state="forward")
TIME, ROWS, SIZE, HIDDEN = 7, 2, SIZES["embedding_size"], SIZES["hidden_size"]


def inputs():
    return np.random.default_rng(3).normal(size=(TIME, ROWS, SIZE))


def states(p):
    """Our states over the sequence [T, B, H]."""
    mask = np.ones((TIME, ROWS), bool)
    run = compiled(lambda p, x, mask: bidirectional(ONE_WAY, {"forward": p}, x, mask)[0])
    return np.asarray(run(p, inputs(), mask))


def side_by_side(p, name):
    return np.concatenate([p[f"{name}_z"], p[f"{name}_r"], p[name]], axis=-1)


def test_gru_equals_haiku():
    with jax.enable_x64(True):
        p = parameters(ONE_WAY, np.float64)["encoder"]["forward"]
        cell = hk.without_apply_rng(hk.transform(lambda x, h: hk.GRU(HIDDEN)(x, h)[1]))
        theirs = {"w_i": side_by_side(p, "W"), "w_h": side_by_side(p, "U")}
        theirs["b"] = np.concatenate([p["b_z"], p["b_r"], p["b"]])
        step, h = compiled(cell.apply), np.zeros((ROWS, HIDDEN))
        for x, ours in zip(inputs(), states(p), strict=True):
            h = step({"gru": theirs}, x, h)
            assert np.allclose(h, ours, rtol=0, atol=1e-12)


def test_gru_differs_from_the_one_that_resets_after_the_product():
    with jax.enable_x64(True):
        p = parameters(ONE_WAY, np.float64)["encoder"]["forward"]
        # There z is the share of the old state: σ(−a) = 1 − σ(a).
        theirs = {
            "ir": {"kernel": p["W_r"], "bias": p["b_r"]},
            "iz": {"kernel": -p["W_z"], "bias": -p["b_z"]},
            "in": {"kernel": p["W"], "bias": p["b"]},
            "hr": {"kernel": p["U_r"]},
            "hz": {"kernel": -p["U_z"]},
            "hn": {"kernel": p["U"], "bias": np.zeros(HIDDEN)},
        }
        step = compiled(nn.GRUCell(HIDDEN, param_dtype=jnp.float64).apply)
        h, ours = np.zeros((ROWS, HIDDEN)), states(p)
        for t, x in enumerate(inputs()):
            h, _ = step({"params": theirs}, h, x)
            if t == 0:  # there is nothing to reset yet
                assert np.allclose(h, ours[0], rtol=0, atol=1e-12)
        assert np.abs(h - ours[-1]).max() > 1e-2


# The tanh model of column vectors: one matrix over each stack of inputs.


def column(x):
    return np.asarray(x, np.float64).reshape(-1, 1)


def recurrent(matrix, bias, *stacked):
    return np.tanh(matrix @ np.vstack(stacked) + bias)


def column_encoder(forward, backward, words):
    """A list of [2H, 1]; `forward` and `backward` are (matrix over [x; h], bias)."""
    runs = []
    for (matrix, bias), order in [(forward, words), (backward, words[::-1])]:
        h, run = column(np.zeros(len(bias))), []
        for x in order:
            h = recurrent(matrix, bias, x, h)
            run.append(h)
        runs.append(run)
    return [np.vstack(both) for both in zip(runs[0], runs[1][::-1], strict=True)]


def column_attention(W_a, U_a, v_a, s, annotations):
    e = np.array([(v_a @ np.tanh(W_a @ s + U_a @ h)).item() for h in annotations])
    alpha = np.exp(e - e.max())
    alpha /= alpha.sum()
    return sum(a * h for a, h in zip(alpha, annotations, strict=True)), alpha


def column_free_run(p, annotations, steps):
    """Outputs, states and weights; each output vector is the next step's input."""
    decoder, out = p["decoder"], p["readout"]
    moving = np.vstack([decoder["W"], decoder["C"], decoder["U"]]).T  # over [y; c; s]
    writing = np.vstack([out["U_o"], out["C_o"], out["V_o"]]).T  # over [s; c; y]
    scoring = [p["attention"][name].T for name in ("W_a", "U_a")] + [p["attention"]["v_a"][None]]
    y, s = column(np.zeros(len(decoder["W"]))), column(np.zeros(HIDDEN))
    found = []
    for _ in range(steps):
        c, alpha = column_attention(*scoring, s, annotations)
        s = recurrent(moving, column(decoder["b"]), y, c, s)
        y = writing @ np.vstack([s, c, y]) + column(out["b_o"])
        found.append((y.ravel(), alpha))
    return map(np.array, zip(*found, strict=True))


def test_column_vector_model():
    steps = 9
    config = ModelConfig(
        **SIZES | {"readout_size": SIZE, "target_vocabulary": steps},
        cell="tanh",
        readout="linear",
        initial_state="zero",
    )
    source = [4, 11, 2, 19, 0]
    with jax.enable_x64(True):
        p = parameters(config, np.float64)
        directions = [
            (np.vstack([cell["W"], cell["U"]]).T, column(cell["b"]))
            for cell in (p["encoder"]["forward"], p["encoder"]["backward"])
        ]
        words = [column(p["source_embedding"]["E"][word]) for word in source]
        annotations = column_encoder(*directions, words)
        outputs, alphas = column_free_run(p, annotations, steps)

        # Our decoder reads words: give the table the output vectors as its rows.
        p = {**p, "target_embedding": {"E": outputs}}
        b = batch([(source, [0] * steps)])._replace(target=np.arange(steps, dtype=np.int32)[None])

        @compiled
        def run(p, b):
            memory = encode(config, p, b.source, b.source_mask)
            return memory.annotations, *teacher_force(config, p, memory, b.target)

        ours, t, alpha = run(p, b)
        assert np.allclose(ours[0], np.hstack(annotations).T, rtol=0, atol=1e-10)
        assert np.allclose(alpha[:, 0], alphas, rtol=0, atol=1e-10)
        assert np.allclose(t[:, 0], outputs, rtol=0, atol=1e-10)
        assert np.abs(np.diff(outputs, axis=0)).max(axis=1).min() > 1e-3
        assert np.abs(np.diff(alphas, axis=0)).max() > 1e-3
        # The order is a part of the comparison: another one writes something else.
        later = dataclasses.replace(config, order="luong")
        memory = compiled(encode, static_argnums=0)(later, p, b.source, b.source_mask)
        t, _ = compiled(teacher_force, static_argnums=0)(later, p, memory, b.target)
        assert np.abs(t[:, 0] - outputs).max() > 1e-2
