"""The explorer: a page in which a trained model runs, and the server that shows it."""

from bahdanau_jax.explorer.explorer_page import LARGEST, Page, build_page, write_page
from bahdanau_jax.explorer.loopback_server import LOOPBACK, address, bind

__all__ = [
    "LARGEST",
    "LOOPBACK",
    "Page",
    "address",
    "bind",
    "build_page",
    "write_page",
]
