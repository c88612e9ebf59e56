"""The same model in simple JAX: scans, autodiff, all logits at once.

It uses the parameters of ours, so that losses can be compared, but shares no code with it.

B sentences, S source and T target positions, n units, V words.
"""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from bahdanau_jax.batch import Batch


def cell(p, h: Float[Array, "B n"], z, r, candidate) -> Float[Array, "B n"]:
    """One step of a GRU, from the products of its inputs. The reset gate precedes the product."""
    z = jax.nn.sigmoid(z + h @ p["U_z"])
    r = jax.nn.sigmoid(r + h @ p["U_r"])
    return (1 - z) * h + z * jnp.tanh(candidate + (r * h) @ p["U"])


def inputs(p, name: str, x: Array) -> tuple[Array, Array, Array]:
    return x @ p[f"{name}_z"], x @ p[f"{name}_r"], x @ p[name]


def biased(p, products: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    z, r, candidate = products
    return z + p["b_z"][None, None], r + p["b_r"][None, None], candidate + p["b"][None, None]


def direction(p, x: Array, mask: Array, reverse: bool) -> Float[Array, "S B n"]:
    def step(h, given):
        products, real = given
        h = jnp.where(real[:, None], cell(p, h, *products), h)
        return h, h

    start = jnp.zeros((x.shape[1], p["U"].shape[0]))
    return jax.lax.scan(step, start, (biased(p, inputs(p, "W", x)), mask.T), reverse=reverse)[1]


def encode(params, batch: Batch):
    """(annotations [B, S, 2n], keys [B, S, a], s_0 [B, n])."""
    x = params["source_embedding"]["E"][batch.source.T]
    forward = direction(params["encoder"]["forward"], x, batch.source_mask, False)
    backward = direction(params["encoder"]["backward"], x, batch.source_mask, True)
    h = jnp.concatenate([forward, backward], -1).swapaxes(0, 1)
    p = params["initial_state"]
    s = jnp.tanh(backward[0] @ p["W_s"] + p["b_s"][None])
    return h, h @ params["attention"]["U_a"], s


def loss(params, batch: Batch) -> Float[Array, ""]:
    """−Σ log p of the target words, in nats."""
    h, keys, s = encode(params, batch)
    y = params["target_embedding"]["E"][batch.target[:, :-1].T]
    y = jnp.concatenate([jnp.zeros((1, *y.shape[1:])), y])
    p, attention, readout = params["decoder"], params["attention"], params["readout"]

    def step(s, products):
        e = jnp.tanh((s @ attention["W_a"])[:, None] + keys) @ attention["v_a"]
        alpha = jax.nn.softmax(jnp.where(batch.source_mask, e, -jnp.inf))
        c = jnp.einsum("bs,bsc->bc", alpha, h)
        s = cell(p, s, *(a + b for a, b in zip(products, inputs(p, "C", c), strict=True)))
        return s, (s, c)

    _, (s, c) = jax.lax.scan(step, s, biased(p, inputs(p, "W", y)))
    t = s @ readout["U_o"] + y @ readout["V_o"] + c @ readout["C_o"] + readout["b_o"][None, None]
    t = t.reshape(*t.shape[:-1], -1, 2).max(-1)
    logits = t @ params["output"]["W_o"] + params["output"]["b_w"][None, None]
    words = optax.softmax_cross_entropy_with_integer_labels(logits, batch.target.T)
    return jnp.sum(words * batch.target_mask.T)


TX = optax.chain(optax.clip_by_global_norm(1.0), optax.adadelta(1.0, rho=0.95, eps=1e-6))


def step(state, batch: Batch):
    """(params, accumulators) -> the next ones, and the loss; clipped Adadelta."""
    params, accumulators = state
    value, gradients = jax.value_and_grad(loss)(params, batch)
    updates, accumulators = TX.update(gradients, accumulators, params)
    return (optax.apply_updates(params, updates), accumulators), value
