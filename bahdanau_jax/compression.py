"""Compressed files by suffix: openers, writers, and the exceptions of damaged ones."""

import gzip
import lzma
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO

OPENERS: Mapping[str, Callable[..., Any]] = MappingProxyType({".gz": gzip.open, ".xz": lzma.open})

# Suffix -> a function of an opened file, whose result compresses into it. gzip.open would record
# the name of the file and the time, so that equal texts would differ.
COMPRESSED: Mapping[str, Callable[[BinaryIO], Any]] = MappingProxyType(
    {
        ".gz": lambda file: gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0),
        ".xz": lambda file: lzma.LZMAFile(file, "wb"),  # noqa: SIM115, its caller closes it
    }
)
UNPACKING_ERRORS = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
