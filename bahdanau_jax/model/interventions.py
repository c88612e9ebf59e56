"""Interventions: changes of the attention weights at chosen steps, before the context is computed.

An intervention maps the weights alpha [S] of one sentence and the number of the step, counted from
0, to other weights [S]. It is a `jax.tree_util.Partial`: its function is static, and each of its
arrays has a leading axis B over the sentences of the batch. `memory.intervene` puts one into a
memory, which teacher forcing, gradients and search then read. Padding keeps a weight of 0.

B sentences, T target steps, S source positions. Each constructor raises ValueError for an array of
another rank or kind than its signature says.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Integer

# A change of attention weights: a function with arrays, which jit, vmap and scan accept.
Intervention = Partial
_KINDS = MappingProxyType({"numbers": jnp.number, "integers": jnp.integer, "booleans": jnp.bool})


def _array(name: str, values: Any, rank: int, kind: str) -> Array:
    """`values` as an array. Raises ValueError where its rank or its kind is another."""
    array = jnp.asarray(values)
    if array.ndim != rank or not jnp.issubdtype(array.dtype, _KINDS[kind]):
        raise ValueError(
            f"{name} should have {rank} axes of {kind}, not shape {list(array.shape)} of "
            f"{array.dtype}"
        )
    return array


def _check_kind(intervention: Any) -> None:
    if not isinstance(intervention, Partial):
        raise ValueError(
            f"an intervention is a jax.tree_util.Partial, but this is a "
            f"{type(intervention).__name__}: write Partial(function, *arrays)"
        )


def replace(weights: Float[Any, "B T S"]) -> Intervention:
    """Use the given weights at steps 0 to T-1. Positions beyond S have a weight of 0.

    A step whose given weights are all 0 keeps its own, and so do later steps. Weights beyond the
    sentence are lost.

    >>> hypotheses = run.translate(lines)
    >>> translate(run, lines, replace(padded([h.alpha for h in hypotheses])))
    """
    return Partial(_replace, _array("weights", weights, 3, "numbers"))


def _replace(weights, alpha, i):
    given = weights.at[i].get(mode="fill", fill_value=0).astype(alpha.dtype)
    row = jnp.pad(given[: len(alpha)], (0, max(0, len(alpha) - len(given))))
    return jnp.where(given.any(), row, alpha)


def force(positions: Integer[Any, "B T"]) -> Intervention:
    """Give the whole weight of step i to one source position; below 0: the step is unchanged.

    Steps beyond T are unchanged too. At a position beyond the sentence, all weights are 0.

    >>> translate(run, ["The man sleeps ."], force(np.array([[2, -1, 0]])))
    """
    signed = _array("positions", positions, 2, "integers").astype(jnp.int32)
    return Partial(_force, signed)


def _force(positions, alpha, i):
    position = positions.at[i].get(mode="fill", fill_value=-1)
    row = jax.nn.one_hot(position, len(alpha), dtype=alpha.dtype)
    return jnp.where(position >= 0, row, alpha)


def mask(words: Bool[Any, "B S"]) -> Intervention:
    """Remove source words from attention, and rescale the other weights to the sum of all.

    That sum is 1, or less for the score `local_p`. The context is zero where all weight is removed.

    >>> translate(run, ["The man sleeps ."], mask(np.array([[False, True, False]])))
    """
    return Partial(_mask, _array("words", words, 2, "booleans"))


def _mask(words, alpha, i):
    removed = jnp.pad(words[: len(alpha)], (0, max(0, len(alpha) - len(words))))
    rest = jnp.where(removed, 0, alpha)
    total = rest.sum()
    changed = rest / jnp.where(total > 0, total, 1) * alpha.sum()
    return jnp.where(removed.any(), changed, alpha)


def harden() -> Intervention:
    """Give the whole weight to the position with the largest one, the first of equals.

    Its gradient with respect to the weights is 0.

    >>> score(run, lines, translations, harden())
    """
    return Partial(_harden)


def _harden(alpha, i):
    return jax.nn.one_hot(alpha.argmax(), len(alpha), dtype=alpha.dtype)


def at(steps: Bool[Any, "B T"], intervention: Intervention) -> Intervention:
    """Apply the intervention at these steps alone; False at all steps beyond T.

    >>> translate(run, ["The man sleeps ."], at(np.array([[False, True]]), harden()))
    """
    _check_kind(intervention)
    return Partial(_at, _array("steps", steps, 2, "booleans"), intervention)


def _at(steps, intervention, alpha, i):
    chosen = steps.at[i].get(mode="fill", fill_value=False)
    return jnp.where(chosen, intervention(alpha, i), alpha)


def padded(matrices: Sequence[np.ndarray]) -> Float[np.ndarray, "B T S"]:
    """Return matrices [T, S] of several sizes as one array, filled up with zeros.

    Raises ValueError for an array that is no matrix.

    >>> padded([np.ones((2, 3)), np.ones((4, 1))]).shape
    (2, 4, 3)
    """
    for row, matrix in enumerate(matrices):
        if np.ndim(matrix) != 2:
            raise ValueError(f"array {row} has shape {list(np.shape(matrix))}; expected [T, S]")
    matrices = [np.asarray(matrix) for matrix in matrices]
    shape = [max((matrix.shape[axis] for matrix in matrices), default=0) for axis in (0, 1)]
    stacked = np.zeros((len(matrices), *shape), np.float32)
    for row, matrix in enumerate(matrices):
        stacked[row, : matrix.shape[0], : matrix.shape[1]] = matrix
    return stacked


def select(
    intervention: Intervention | None, rows: Sequence[int], size: int
) -> Intervention | None:
    """Return the intervention of these sentences of the batch, filled up to `size` sentences."""
    chosen = np.array([*rows, *[0] * (size - len(rows))], np.int32)
    return jax.tree.map(lambda leaf: leaf[chosen], intervention)


def check(intervention: Any, sentences: int) -> None:
    """Raise ValueError unless this is an intervention of this number of sentences, or None."""
    if intervention is not None:
        _check_kind(intervention)
    for leaf in jax.tree.leaves(intervention):
        if np.shape(leaf)[:1] != (sentences,):
            raise ValueError(
                f"the intervention has an array of shape {list(np.shape(leaf))}, but there are "
                f"{sentences} sentences: give its arrays a row for each sentence"
            )


def changed(
    intervention: Intervention | None,
    alpha: Float[Array, "B ... S"],
    i: Float[Array, "B ..."] | tuple[()],
    mask: Bool[Array, "B S"],
) -> Float[Array, "B ... S"]:
    """Return alpha after the intervention, where there is one; padding keeps a weight of 0."""
    if intervention is None:
        return alpha

    def of_sentence(intervention, alpha, i, mask):
        if alpha.ndim > 1:  # several hypotheses, which share the intervention
            return jax.vmap(lambda alpha, i: of_sentence(intervention, alpha, i, mask))(alpha, i)
        # Padding is set to 0 here, too: where a derivative is infinite at 0, as the square root's,
        # gradients would be NaN otherwise.
        result = intervention(jnp.where(mask, alpha, 0), i.astype(jnp.int32))
        if (shape := getattr(result, "shape", None)) != alpha.shape:
            returned = type(result).__name__ if shape is None else f"array of shape {list(shape)}"
            raise ValueError(
                f"the intervention returns the {returned}; expected the weights of all source "
                f"positions, an array of shape {list(alpha.shape)}"
            )
        return jnp.where(mask, result.astype(alpha.dtype), 0)

    return jax.vmap(of_sentence)(intervention, alpha, i, mask)
