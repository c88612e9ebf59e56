"""The explorer: a page in which a trained model runs."""

from bahdanau_jax.explorer.explorer_page import LARGEST, Page, build_page, write_page

__all__ = [
    "LARGEST",
    "Page",
    "build_page",
    "write_page",
]
