"""How fast, beside what else, on which machine: each benchmark is a function that returns JSON."""

from bahdanau_jax.benchmarks import data, machine, overhead

__all__ = ["data", "machine", "overhead"]
