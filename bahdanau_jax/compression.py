"""Openers of compressed files by suffix, and the exceptions of damaged ones."""

import gzip
import lzma
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

OPENERS: Mapping[str, Callable[..., Any]] = MappingProxyType({".gz": gzip.open, ".xz": lzma.open})
UNPACKING_ERRORS = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
