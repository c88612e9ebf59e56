"""Recurrent cells: the paper's gated unit, the plain tanh unit, and a unit of small networks.

B sentences, I inputs, H units, D directions. The caller multiplies the inputs by the cell's input
matrices and adds its biases before the scan; G is the width of the result, 3H for the gated unit.

Source: arXiv 1409.0473, appendix A.1.1. Two things differ from the GRU cells of most libraries:
the reset gate acts before the recurrent product, and z is the share of the new state.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from bahdanau_jax.model.parameters import Init, Params, add_bias, draw, zeros
from bahdanau_jax.model.recurrence import Dot, Weights


class Cell(NamedTuple):
    """A recurrent unit as pure functions."""

    init: Callable[..., dict[str, Array]]  # (key, init, inputs {name: I}, H, gate_bias) -> params
    inputs: Callable[[Params, str], Array]  # (params, name) -> the input matrix [I, G]
    bias: Callable[[Params], Array]  # params -> [G]
    recurrent: Callable[[Params], Weights]  # params -> matrices of the state, by names in `step`
    # (dot, h [... B H], x [... B G], `rest` of the parameters) -> h [... B H]
    step: Callable[[Dot, Array, Array, Params], Array]
    rest: Callable[[Params], Params] = lambda params: {}  # other parameters that `step` reads
    of_state: tuple[str, ...] = ("U",)  # the recurrent matrices whose rows are units of the state


def init_gru(
    key: Key[Array, ""], init: Init, inputs: Mapping[str, int], hidden: int, gate_bias: bool
) -> dict[str, Array]:
    """Draw W, W_z, W_r for each named input, U, U_z, U_r, b and, with `gate_bias`, b_z, b_r."""
    gates = ("", "_z", "_r")
    shapes = {
        f"{name}{gate}": (init.weight, (size, hidden))
        for name, size in inputs.items()
        for gate in gates
    }
    shapes |= {f"U{gate}": (init.recurrent, (hidden, hidden)) for gate in gates}
    shapes |= {f"b{gate}": zeros(hidden) for gate in (gates if gate_bias else ("",))}
    return draw(key, shapes)


def gru_inputs(params: Params, name: str) -> Float[Array, "I G"]:
    """Return the input matrices of update gate, reset gate and candidate side by side."""
    return jnp.concatenate([params[f"{name}_z"], params[f"{name}_r"], params[name]], axis=-1)


def gru_bias(params: Params) -> Float[Array, " G"]:
    """Return the biases of both gates and of the candidate; gates without biases have zeros."""
    b = params["b"]
    return jnp.concatenate([params.get("b_z", jnp.zeros_like(b)), params.get("b_r", b * 0), b])


def gru_recurrent(params: Params) -> Weights:
    """Return the matrices that multiply the state, those of both gates side by side."""
    return {"U_zr": jnp.concatenate([params["U_z"], params["U_r"]], axis=-1), "U": params["U"]}


def gru_step(
    dot: Dot, h: Float[Array, "*D B H"], x: Float[Array, "*D B 3*H"], rest: Params
) -> Float[Array, "*D B H"]:
    """h' = (1 − z) ∘ h + z ∘ tanh(x + U[r ∘ h]), with z = σ(x_z + U_z h), r = σ(x_r + U_r h)."""
    x_z, x_r, x_candidate = jnp.split(x, 3, axis=-1)
    u_z, u_r = jnp.split(dot("U_zr", h), 2, axis=-1)
    z, r = jax.nn.sigmoid(x_z + u_z), jax.nn.sigmoid(x_r + u_r)
    candidate = jnp.tanh(x_candidate + dot("U", r * h))
    return h + z * (candidate - h)


def init_tanh(
    key: Key[Array, ""], init: Init, inputs: Mapping[str, int], hidden: int, gate_bias: bool
) -> dict[str, Array]:
    """Draw W for each named input, U and b. The cell has no gates and ignores `gate_bias`."""
    shapes = {name: (init.weight, (size, hidden)) for name, size in inputs.items()}
    return draw(key, shapes | {"U": (init.recurrent, (hidden, hidden)), "b": zeros(hidden)})


def tanh_step(
    dot: Dot, h: Float[Array, "*D B H"], x: Float[Array, "*D B H"], rest: Params
) -> Float[Array, "*D B H"]:
    """h' = tanh(x + U h)."""
    return jnp.tanh(x + dot("U", h))


def init_mlp(
    key: Key[Array, ""], init: Init, inputs: Mapping[str, int], hidden: int, gate_bias: bool
) -> dict[str, Array]:
    """Draw the layers of M_x, a first matrix for each named input, and of M_h.

    M_x has W, C [I, H/2], b, W_2 [H/2, H] and b_2. M_h has U [H, H/2], b_u, U_2 [H/2, H] and b_u2;
    its matrices are recurrent ones. The cell has no gates and ignores `gate_bias`.
    """
    half = hidden // 2
    shapes = {name: (init.weight, (size, half)) for name, size in inputs.items()}
    shapes |= {"b": zeros(half), "W_2": (init.weight, (half, hidden)), "b_2": zeros(hidden)}
    shapes |= {"U": (init.recurrent, (hidden, half)), "b_u": zeros(half)}
    return draw(key, shapes | {"U_2": (init.recurrent, (half, hidden)), "b_u2": zeros(hidden)})


def mlp_step(
    dot: Dot, h: Float[Array, "*D B H"], x: Float[Array, "*D B H//2"], rest: Params
) -> Float[Array, "*D B H"]:
    """h' = tanh(M_x + M_h), M_x = W_2 max(0, x) + b_2, M_h = U_2 max(0, U h + b_u) + b_u2.

    x is the first layer of M_x before its ReLU. Source: the encoder of
    https://github.com/zhengyang-2002/Paper_reading-Replicating, a reimplementation of the paper.
    """
    of_x = add_bias(dot("W_2", jax.nn.relu(x)), rest["b_2"])
    of_h = dot("U_2", jax.nn.relu(add_bias(dot("U", h), rest["b_u"])))
    return jnp.tanh(of_x + add_bias(of_h, rest["b_u2"]))


def dropping(dot: Dot, cell: Cell, rate: float, kept: Bool[Array, "*D B H"] | None) -> Dot:
    """Return the `dot` of a step whose recurrent products read only the kept units of the state.

    The mask is that of all steps of a sentence, and the state itself loses no unit. Source: Gal and
    Ghahramani 2016, arXiv 1512.05287.
    """
    if kept is None:
        return dot

    def dropped(name: str, operand: Array) -> Array:
        if name in cell.of_state:
            operand = jnp.where(kept, operand / (1 - rate), jnp.zeros((), operand.dtype))
        return dot(name, operand)

    return dropped


# Value of `model.cell` -> the recurrent unit.
CELLS: Mapping[str, Cell] = MappingProxyType(
    {
        "gru": Cell(
            init_gru, gru_inputs, gru_bias, gru_recurrent, gru_step, of_state=("U_zr", "U")
        ),
        "tanh": Cell(
            init=init_tanh,
            inputs=lambda params, name: params[name],
            bias=lambda params: params["b"],
            recurrent=lambda params: {"U": params["U"]},
            step=tanh_step,
        ),
        "mlp": Cell(
            init=init_mlp,
            inputs=lambda params, name: params[name],
            bias=lambda params: params["b"],
            recurrent=lambda params: {name: params[name] for name in ("W_2", "U", "U_2")},
            step=mlp_step,
            rest=lambda params: {name: params[name] for name in ("b_2", "b_u", "b_u2")},
        ),
    }
)
