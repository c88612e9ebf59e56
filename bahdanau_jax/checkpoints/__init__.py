"""Checkpoints: saved by Orbax, verified by digests, selected by their scores."""

from bahdanau_jax.checkpoints.checkpointer import Checkpointer
from bahdanau_jax.checkpoints.inventory import Entry, better, inventory, prune
from bahdanau_jax.checkpoints.orbax_errors import Damaged
from bahdanau_jax.checkpoints.replacement import nothing_in
from bahdanau_jax.checkpoints.selection import Chosen, Records
from bahdanau_jax.checkpoints.state_digest import (
    difference,
    dotted,
    flatten,
    signature,
    undotted,
    unflatten,
)

__all__ = [
    "Checkpointer",
    "Chosen",
    "Damaged",
    "Entry",
    "Records",
    "better",
    "difference",
    "dotted",
    "flatten",
    "inventory",
    "nothing_in",
    "prune",
    "signature",
    "undotted",
    "unflatten",
]
