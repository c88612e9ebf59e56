"""A stand-in for a trained run, which translates into capitals, and servers on free ports."""

import contextlib
import dataclasses
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from bahdanau_jax.aligner import Aligned
from bahdanau_jax.config import Config
from bahdanau_jax.hypothesis import EMPTY, Hypothesis
from tests import small

httpx = pytest.importorskip("httpx", reason="httpx is not installed")


def hypothesis(source: str, text: str, rank: int = 0) -> Hypothesis:
    tokens, units = (*text.split(), "</s>"), (*source.split(), "</s>")
    return Hypothesis(
        text=text,
        tokens=tokens,
        log_probabilities=(-0.5 - rank,) * len(tokens),
        score=(-0.5 - rank) * len(tokens),
        finished=True,
        source_tokens=units,
        alpha=np.full((len(tokens), len(units)), 1 / len(units), np.float32),
    )


class Words:
    """Every word is a token. Cleaning, as with NFKC, may write one character as 18."""

    def encode(self, line: str) -> list[int]:
        return [7] * (len(line.replace("ﷺ", "a " * 18).split()) + 1)


@dataclass(frozen=True)
class Stub:
    """A run. Searches wait for `gate`; `searches` holds the lines of each."""

    config: Config = dataclasses.replace(
        small.config, model=dataclasses.replace(small.config.model, order="paper")
    )
    params: Any = None
    codecs: tuple = (Words(), Words())
    gate: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    searches: list = field(default_factory=list)

    @property
    def members(self) -> tuple:
        return (self,)

    def models(self) -> tuple:
        return (self.config.model,), (self.params,)

    def _enter(self, kind: str, items: list) -> None:
        self.searches.append((kind, items, self.config.decoding))
        self.begun.set()
        assert self.gate.wait(300)
        if "fault" in items:
            raise ZeroDivisionError("a fault of the program")
        if "memory" in items:
            raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")

    def translate(self, lines, n_best, prefixes=None, first=()):
        self._enter("translate", list(lines))
        prefixes = prefixes or [""] * len(lines)
        return [
            [
                hypothesis(line, f"{prefix} {line.upper()} {number}".strip(), rank)
                for rank in range(n_best)
            ]
            if line.strip()
            else [EMPTY]
            for line, prefix, number in zip(lines, prefixes, first, strict=True)
        ]

    def score(self, sources, targets):
        self._enter("score", list(sources))
        return [hypothesis(*pair) for pair in zip(sources, targets, strict=True)]

    def align(self, sources, targets, level, weights):
        self._enter("align", list(sources))
        return [
            Aligned(
                tuple(source.split()),
                tuple(target.split()),
                np.eye(len(target.split()) + 1, len(source.split()) + 1)
                if source.strip()
                else np.zeros((0, 0)),
                -1.5 if source.strip() else None,
                {} if weights == "attention" else {weights: np.ones((1, 1))},
            )
            for source, target in zip(sources, targets, strict=True)
        ]


@pytest.fixture
def stub():
    run = Stub()
    run.gate.set()
    return run


class Client(httpx.Client):
    """A client of one server; `app` is its application, and `end` stops it."""

    app: Any
    end: Any
    thread: threading.Thread

    def until_ready(self):
        deadline = time.monotonic() + 3000
        while self.get("/health/ready").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return self


@contextlib.contextmanager
def started(runs, settings=None, pages=None, hosts=(), **options):
    """A server in a thread, and a client of it."""
    from bahdanau_jax import serving

    app = serving.application(runs, settings or serving.Settings(warm_tokens=0), pages or {}, hosts)
    opened, ends = serving.bind("127.0.0.1", 0), []
    address = serving.url(opened)
    thread = threading.Thread(
        target=serving.serve, args=(app, opened), kwargs={"started": ends.append, **options}
    )
    thread.start()
    try:
        with Client(base_url=address, timeout=300) as client:
            client.app, client.end, client.thread = app, lambda: ends[0](), thread
            client.get("/health/live")
            yield client
    finally:
        for run in runs.values():
            if isinstance(run, Stub):
                run.gate.set()
        ends[0]()
        thread.join(300)
        assert not thread.is_alive()


@pytest.fixture
def server(stub):
    """Starts a server of the stub, with these settings, and returns its client."""
    from bahdanau_jax import serving

    with contextlib.ExitStack() as stack:

        def start(**settings):
            chosen = serving.Settings(**{"warm_tokens": 0, **settings})
            return stack.enter_context(started({"stub": stub}, chosen)).until_ready()

        yield start


@pytest.fixture(scope="module")
def shared():
    """A client of one server of a stub, for all tests of a file that change nothing of it."""
    from bahdanau_jax import serving

    run = Stub()
    run.gate.set()
    with started(
        {"stub": run}, serving.Settings(warm_tokens=0, max_beam=10, max_lines=4)
    ) as client:
        yield client.until_ready()


def searched(stub) -> Counter:
    """The number of searches of each kind."""
    return Counter(kind for kind, *_ in stub.searches)
