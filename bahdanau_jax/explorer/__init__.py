"""The explorer: a page in which a trained model runs."""

from bahdanau_jax.explorer.explorer_page import Page, build_page, write_page

__all__ = [
    "Page",
    "build_page",
    "write_page",
]
