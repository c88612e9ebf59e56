"""The exported model: a folder that translates with JAX and NumPy alone."""

from bahdanau_jax.export.folder import check, write
from bahdanau_jax.export.model_card import megabytes

__all__ = ["check", "megabytes", "write"]
