"""The orders of a decoder step: when it attends, updates its state and generates a word.

B sentences, S source positions, H units, C annotation size.
Source: arXiv 1409.0473. Its main text, its authors' program, Luong et al. (arXiv 1508.04025) and
Sennrich et al. (arXiv 1703.04357) order these parts differently.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from bahdanau_jax.model.attention import Attended


class State(NamedTuple):
    """The decoder's state between two words."""

    s: Float[Array, "B H"]  # s_i, after the latest word
    c: Float[Array, "B C"]  # the latest context; 0 before the first word
    i: Float[Array, " B"] | tuple[()] = ()  # words so far, where the score reads their number
    coverage: Float[Array, "B S"] | tuple[()] = ()  # Σ of alpha so far, where the score reads it


@runtime_checkable
class Update(Protocol):
    """A step of a cell. The first one reads the word before, and the last one the context c."""

    def __call__(self, s: Array, c: Array | None = None, *, second: bool = False) -> Array:
        """Return the next s."""
        ...


ContextOf = Callable[[Array], Attended]  # s -> its context and attention weights
Moved = tuple[State, Array]  # the new state, and α


class Order(NamedTuple):
    """An order of the parts of a step."""

    move: Callable[[Update, ContextOf, State, Array], Moved]  # the last argument: is it START?
    has_second_cell: bool = False  # which has parameters of its own, and reads the context
    is_linear: bool = False  # whether it only selects and sums contexts, so that a search may fold


def _paper(update: Update, context_of: ContextOf, state: State, start: Array) -> Moved:
    """Attend, update, generate (Eq. 4 of the main text)."""
    c, alpha = context_of(state.s)
    return state._replace(s=update(state.s, c), c=c), alpha


def _luong(update: Update, context_of: ContextOf, state: State, start: Array) -> Moved:
    """Update, attend, generate (arXiv 1508.04025, which feeds its attention vector, not c)."""
    s = update(state.s, state.c)
    c, alpha = context_of(s)
    return state._replace(s=s, c=c), alpha


def _groundhog(update: Update, context_of: ContextOf, state: State, start: Array) -> Moved:
    """Attend, generate, update. The update belongs to the previous word, so START has none."""
    s = jnp.where(start, state.s, update(state.s, state.c))
    c, alpha = context_of(s)
    return state._replace(s=s, c=c), alpha


def _conditional(update: Update, context_of: ContextOf, state: State, start: Array) -> Moved:
    """Read the word, attend, read the context in a second cell, generate (arXiv 1703.04357)."""
    between = update(state.s)
    c, alpha = context_of(between)
    return state._replace(s=update(between, c, second=True), c=c), alpha


# Value of `model.order` -> the order of attention, update and generation in a step.
ORDERS: Mapping[str, Order] = MappingProxyType(
    {
        "paper": Order(_paper, is_linear=True),
        "groundhog": Order(_groundhog, is_linear=True),
        "luong": Order(_luong, is_linear=True),
        "conditional": Order(_conditional, has_second_cell=True, is_linear=True),
    }
)
