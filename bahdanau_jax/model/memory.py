"""The memory: what the decoder reads of a source sentence; and the mask of words before EOS.

B sentences, S source positions, C annotation size, A alignment units, H decoder units; G and P are
the widths of the products of a context in the recurrence and in the readout.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bahdanau_jax.model.interventions import Intervention


class Memory(NamedTuple):
    """The encoder's output that the decoder attends to, computed once for each sentence."""

    annotations: Float[Array, "B S C"]  # h_j
    keys: Float[Array, "B S A"]  # what a query is compared with; U_a h_j for the additive score
    mask: Bool[Array, "B S"]  # True at real positions
    initial: Float[Array, "B H"]  # s_0
    i: Float[Array, " B"] | tuple[()] = ()  # 0, the first step, where its number is read
    coverage: Float[Array, "B S"] | tuple[()] = ()  # zeros, where the score reads Σ of alpha so far
    intervention: Intervention | None = None  # a change of alpha


class Folded(NamedTuple):
    """A memory whose annotations are already multiplied by the matrices that contexts need.

    A context is a weighted sum of annotations, so C c_i = Σ_j α_ij (C h_j). This takes one product
    for each source position, not one for each word of each hypothesis. `State.c` is [C c, C_o c],
    so that only an order that is linear in its contexts can read it.
    """

    annotations: Float[Array, "B S G+P"]  # C h_j and C_o h_j side by side
    keys: Float[Array, "B S A"]  # as in `Memory`, like all fields that follow
    mask: Bool[Array, "B S"]  # True at real positions
    initial: Float[Array, "B H"]  # s_0
    i: Float[Array, " B"] | tuple[()] = ()  # the step, where its number is read
    coverage: Float[Array, "B S"] | tuple[()] = ()  # zeros, where the score reads Σ of alpha so far
    intervention: Intervention | None = None  # a change of alpha


def intervene(memory: Memory, intervention: Intervention | None) -> Memory:
    """Return a memory whose attention weights the intervention changes; None changes nothing."""
    if intervention is None:
        return memory
    return memory._replace(i=first_step(memory.annotations), intervention=intervention)


def first_step(annotations: Float[Array, "B S C"]) -> Float[Array, " B"]:
    """Return the number of the first step, in a dtype that counts all steps exactly."""
    return jnp.zeros(annotations.shape[:1], _dtype_of_weights(annotations))


def no_coverage(annotations: Float[Array, "B S C"]) -> Float[Array, "B S"]:
    """Return the sums of attention weights before the first step, in the dtype of alpha."""
    return jnp.zeros(annotations.shape[:2], _dtype_of_weights(annotations))


def _dtype_of_weights(annotations: Array) -> Any:
    return jnp.promote_types(annotations.dtype, jnp.float32)


def before_eos(mask: Bool[Array, "B X"]) -> Bool[Array, "B X"]:
    """Return the mask of either side without the last real position of each row, its EOS."""
    return mask & jnp.pad(mask[:, 1:], ((0, 0), (0, 1)))
