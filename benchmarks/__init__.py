"""How fast, beside what else, on which machine: each benchmark is a function that returns JSON.

Each is a module, imported where it is asked for, so that none measures what another one imports.
"""

# pyright: reportUnsupportedDunderAll=false
__all__ = [
    "data",
    "decode",
    "epoch",
    "learning",
    "machine",
    "memory",
    "overhead",
    "scaling",
    "train",
]
