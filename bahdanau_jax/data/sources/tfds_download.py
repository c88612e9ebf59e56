"""Download and preparation of a dataset of TFDS, also without TensorFlow.

TFDS uses TensorFlow's file functions to extract archives and to sort more than a gigabyte on disk.
Without TensorFlow, Python's own file functions take their place. Without a network TFDS retries for
minutes; here a probe asks the server first.
"""

import contextlib
import errno
import http.client
import importlib.resources.abc
import importlib.util
import os
import queue
import ssl
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

ANSWER_SECONDS = 10.0  # the time that a server has to answer
STALL_SECONDS = 60.0  # a download fails after this time without a byte


class Unreachable(ConnectionError):
    """No server answers at an address."""


def prepare(builder: Any, spec: str) -> None:
    """Download the files that `builder` needs and write its dataset, whole or not at all.

    Downloads are kept, so a second attempt does not repeat them. Raises OSError where no server
    answers, ValueError for other faults, each in one line.
    """
    import tensorflow_datasets
    from tensorflow_datasets.core.download import download_manager, extractor, util

    failures = (
        *(AssertionError, OSError, ValueError, util.DownloadError, extractor.ExtractError),
        download_manager.NonMatchingChecksumError,
    )
    settings = tensorflow_datasets.download.DownloadConfig(try_download_gcs=False)
    try:
        # TFDS prints to stdout, but stdout is for the results of a command.
        with _on_this_machine(), contextlib.redirect_stdout(sys.stderr):
            builder.download_and_prepare(download_config=settings, file_format="array_record")
    except Unreachable as error:
        raise Unreachable(
            f"{spec} is not in {builder.data_dir_root}, and there is no network to download it "
            f"({error}): prepare it elsewhere and copy that folder here, name the folder that has "
            "it by TFDS_DATA_DIR or ?data_dir=..., or use text: files"
        ) from error
    except ImportError as error:
        raise ValueError(
            f"to prepare {spec}, the package {error.name or error} is needed: "
            "pip install 'bahdanau-jax[prepare]'"
        ) from error
    except failures as error:
        message = " ".join(str(error).split())
        raise ValueError(f"{spec} could not be prepared: {message}") from error


@contextlib.contextmanager
def _on_this_machine() -> Iterator[None]:
    """Patch TFDS: a probe before each download, and replacements for packages that are missing."""
    from tensorflow_datasets.core import dataset_builder, shuffle
    from tensorflow_datasets.core.download import downloader, extractor

    changes = [(downloader, "_open_url", _probed(downloader._open_url))]
    if not _installed("tensorflow"):
        changes += [(extractor, "tf", LOCAL_FILES), (shuffle, "tf", LOCAL_FILES)]
    if not _installed("importlib_resources"):  # the backport of a module of Python
        changes += [(dataset_builder, "importlib_resources", importlib.resources)]
    before = [(module, name, vars(module)[name]) for module, name, _ in changes]
    try:
        for module, name, value in changes:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _probed(open_url: Callable) -> Callable:
    def probe_and_open(url: str, **options):
        if fault := _fault(url):
            raise Unreachable(f"{urlsplit(url).netloc}: {fault}")
        return open_url(url, **{"timeout": (ANSWER_SECONDS, STALL_SECONDS), **options})

    return probe_and_open


def _fault(url: str) -> str:
    """The reason why no server answers at the address; "" where one answers."""
    # A name server that does not answer blocks a thread for longer than the timeout.
    answers = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(_ask(url)), daemon=True).start()
    try:
        return answers.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        return f"no answer in {ANSWER_SECONDS:g} seconds"


def _ask(url: str) -> str:
    try:
        request = urllib.request.Request(url, method="HEAD")
        urllib.request.urlopen(request, timeout=ANSWER_SECONDS).close()
    except urllib.error.HTTPError as error:  # an error status is an answer too
        error.close()
    except OSError as error:
        reason = getattr(error, "reason", error)
        if not isinstance(reason, ssl.SSLError):  # TFDS has its own certificates
            return str(reason)
    except http.client.HTTPException as error:
        return f"no HTTP answer ({type(error).__name__})"
    return ""


def _open(path: os.PathLike | str, mode: str):
    """Open a local file. TFDS opens a thousand files while it sorts, so the limit may be raised."""
    try:
        return open(path, mode)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    import resource  # does not exist on Windows, where the limit is higher

    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = limit + 2_000
    if most != resource.RLIM_INFINITY:
        more = min(more, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (more, most))
    return open(path, mode)


# The functions of TensorFlow that TFDS uses to extract and to sort.
LOCAL_FILES = SimpleNamespace(
    io=SimpleNamespace(
        gfile=SimpleNamespace(GFile=_open, exists=os.path.exists, remove=os.remove),
    ),
    compat=SimpleNamespace(as_text=os.fsdecode),
    errors=SimpleNamespace(ResourceExhaustedError=type("Never", (Exception,), {})),
)
