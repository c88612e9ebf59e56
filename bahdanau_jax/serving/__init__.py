"""The HTTP server: trained models behind JSON endpoints. FastAPI and uvicorn do the rest."""

import importlib
from typing import TYPE_CHECKING, Any

# Name -> module, imported at first use: the help of `bahdanau serve` needs only the settings, and
# neither JAX nor FastAPI.
_PUBLIC = {
    "Page": "app",
    "Settings": "serving_settings",
    "answered_hosts": "hosts",
    "application": "app",
    "bind": "server",
    "check": "serving_settings",
    "is_loopback": "hosts",
    "serve": "server",
    "url": "server",
}

__all__ = [*_PUBLIC]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from bahdanau_jax.serving.app import Page as Page
    from bahdanau_jax.serving.app import application as application
    from bahdanau_jax.serving.hosts import answered_hosts as answered_hosts
    from bahdanau_jax.serving.hosts import is_loopback as is_loopback
    from bahdanau_jax.serving.server import bind as bind
    from bahdanau_jax.serving.server import serve as serve
    from bahdanau_jax.serving.server import url as url
    from bahdanau_jax.serving.serving_settings import Settings as Settings
    from bahdanau_jax.serving.serving_settings import check as check


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
