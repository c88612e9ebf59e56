"""Times the translation of one sentence at a time: served, in this process, and by other programs.

All programs are loaded and warm. They translate the same sentences in turn, each with its fastest
settings. A ratio is the median of the ratios of consecutive rounds.
"""

import dataclasses
import itertools
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from bahdanau_jax import data
from bahdanau_jax.batch import EOS
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.evaluation import scores
from bahdanau_jax.reporting import say
from bahdanau_jax.trained import Run, load
from benchmarks import decode_benchmark, peers, updates
from benchmarks.decode_benchmark import ALPHA, SEARCH, Round, Settings, Side, Text, tune
from benchmarks.peers import process, recipe
from benchmarks.server_process import LONGEST, Server, one_by_one

SERVED = "ours served"  # the name of the server in the results
# Name -> whether the process reuses freed memory, as ours does.
JOEYNMT: Mapping[str, bool] = MappingProxyType({"joeynmt": True, "joeynmt as it comes": False})
TORCH = "torch"  # our model by hand in PyTorch
PEERS = (*JOEYNMT, TORCH)
# Fields of a model that the program in PyTorch takes from the weights, or does not need.
FREE = ("source_vocabulary", "target_vocabulary", "embedding_size", "hidden_size")
FREE += ("alignment_size", "readout_size", "init", "gradients", "compute_dtype")
PRECISIONS = ("float32", "bfloat16")


def run(
    folder: Path,
    python: Path | None = None,
    torch_python: Path | None = None,
    peer_folder: Path | None = None,
    peer_updates: int = 1_000,
    corpus: str = "",
    sentences: int = 100,
    beams: Sequence[int] = (1, 5),
    rounds: int = 5,
    trust_code: bool = False,
) -> dict[str, Any]:
    """Measure the run in `folder` beside programs in other environments.

    `python` is that of an environment with JoeyNMT, whose model is that of `decode_benchmark.run`.
    `torch_python` is that of an environment with torch and NumPy, for the run's own model. Raises
    ValueError where a program or the server fails.
    """
    ours = load(folder, trust_code=trust_code)
    text = decode_benchmark.text_of(ours, corpus, sentences, LONGEST)
    home = (peer_folder or folder / "peer-joeynmt").absolute()
    greetings: dict[str, Any] = {}
    with ExitStack() as stack:
        others: dict[str, Side] = {}
        if torch_python is not None:
            torch = stack.enter_context(_torch_program(ours, torch_python, stack))
            others[TORCH], greetings[TORCH] = _torch(torch, ours, text), torch.greeting
        if python is not None:
            say(f"JoeyNMT: {peer_updates} updates, unless {home} has its model")
            for name, keep in JOEYNMT.items():
                peer = stack.enter_context(peers.joeynmt(ours, python, home, peer_updates, keep))
                others[name] = _joeynmt(peer, ours, text, keep)
                sizes = {"updates": peer_updates, **recipe.sizes(ours.config)}
                greetings.setdefault("joeynmt", {**peer.greeting, **sizes})
        say("the server starts")
        server = stack.enter_context(Server(folder, (), trust_code))
        sides = {SERVED: _served(server, text), "ours": _ours(ours, text), **others}
        return {
            "peers": greetings,
            "text": decode_benchmark.measured(ours, text),
            "search": dict(SEARCH),
            "counted": {name: side.counted for name, side in sides.items()},
            "beams": {str(beam): compare(sides, beam, rounds, text) for beam in beams},
        }


def compare(sides: Mapping[str, Side], beam: int, rounds: int, text: Text) -> dict[str, Any]:
    """Tune each program, which also warms it, then run the rounds in turn.

    A ratio is the latency of a peer over ours, so that ours is faster above 1.
    """
    say(f"beam {beam}: settings of each program, then {rounds} rounds")
    tuned = {name: tune(side, beam) for name, side in sides.items()}
    turns = [
        {name: side.translate(beam, tuned[name]["settings"]) for name, side in sides.items()}
        for _ in range(rounds)
    ]
    results: dict[str, Any] = {
        name: {**settings, **latencies([turn[name] for turn in turns], text.references)}
        for name, settings in tuned.items()
    }
    own = [name for name in sides if name not in PEERS]
    for name, peer in itertools.product(own, [name for name in sides if name in PEERS]):
        results[f"{name} over {peer}"] = ratios([(turn[name], turn[peer]) for turn in turns])
    return results


def latencies(rounds: Sequence[Round], references: Sequence[str]) -> dict[str, Any]:
    """Return the latencies of the sentences of all rounds, and what was written, of the last."""
    each, last = [seconds for turn in rounds for seconds in turn.each], rounds[-1]
    cpu = sum(turn.cpu_seconds for turn in rounds)
    return {
        **percentiles(each),
        "mean_ms": round(1000 * statistics.mean(each), 2),
        "mean_ms_of_rounds": [round(1000 * statistics.mean(turn.each), 2) for turn in rounds],
        "cpu_ms": round(1000 * cpu / len(each), 2),
        "ms_per_token": round(1000 * statistics.median(map(_per_token, rounds)), 3),
        "tokens_per_sentence": round(last.tokens / len(last.texts), 2),
        "bleu_lowercased": round(scores.bleu(last.texts, references, lowercase=True).score, 1),
    }


def ratios(turns: Sequence[tuple[Round, Round]]) -> dict[str, Any]:
    """Return the medians of the ratios of a peer's rounds to ours, a sentence and a token."""
    by_sentence = [peer.seconds / ours.seconds for ours, peer in turns]
    by_token = [_per_token(peer) / _per_token(ours) for ours, peer in turns]
    return {
        "ratio": round(statistics.median(by_sentence), 2),
        "ratios": [round(ratio, 2) for ratio in by_sentence],
        "ratio_per_token": round(statistics.median(by_token), 2),
    }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 95th and 99th percentile in milliseconds, between neighbours.

    Percentile p of n ordered values is at position p / 100 (n - 1), counted from 0.

    >>> percentiles([0.010, 0.020])
    {'p50_ms': 15.0, 'p95_ms': 19.5, 'p99_ms': 19.9}
    """
    if len(seconds) == 1:
        seconds = [*seconds, *seconds]
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {f"p{percent}_ms": round(1000 * cuts[percent - 1], 2) for percent in (50, 95, 99)}


def _per_token(turn: Round) -> float:
    """The seconds of a written token, with EOS, which takes a step of the search too."""
    return turn.seconds / (turn.tokens + len(turn.texts))


def _served(server: Server, text: Text) -> Side:
    """Requests of one line each, of one client with one connection."""

    def translate(beam: int, settings: Settings) -> Round:
        before = server.metrics()["process_cpu_seconds_total"]
        search = {**SEARCH, **settings, "beam_size": beam}
        best, each = one_by_one(server, text.sources, search)
        cpu = server.metrics()["process_cpu_seconds_total"] - before
        tokens = sum(len(line["tokens"]) - line["finished"] for line in best)
        return Round(sum(each), cpu, [line["text"] for line in best], tokens, each)

    counted = (
        "bahdanau serve: POST /translate from the first byte sent to the last byte received, with "
        "tokenising, detokenising and the probability of every token"
    )
    return Side(translate, {"compute_dtype": PRECISIONS}, counted)


def _ours(run: Run, text: Text) -> Side:
    """Our search in this process, for the same work as JoeyNMT's: tokens in, tokens out."""
    numbered, target = recipe.numbered(run), run.codecs[1]
    words = [recipe.to_words(run.codecs[0], line) for line in text.sources]

    def translate(beam: int, settings: Settings) -> Round:
        search, each, written = {**SEARCH, **settings, "beam_size": beam}, [], []
        cpu = time.process_time()
        for line in words:
            start = time.perf_counter()
            (best,) = numbered.translate([line], **search)
            each.append(time.perf_counter() - start)
            written.append(recipe.to_ids(best.text))
        cpu = time.process_time() - cpu
        texts = [target.decode([*line, EOS]) for line in written]
        return Round(sum(each), cpu, texts, sum(map(len, written)), each)

    counted = (
        "Run.translate of one line: tokens in, search with the alignment and the probability of "
        "every token, tokens out; no HTTP, tokenising and detokenising are not counted"
    )
    return Side(translate, {"compute_dtype": PRECISIONS}, counted)


def _joeynmt(peer: peers.Peer, run: Run, text: Text, keep: bool) -> Side:
    source, target = run.codecs
    words = [recipe.to_words(source, line) for line in text.sources]

    def translate(beam: int, settings: Settings) -> Round:
        answers = [
            peer.ask(lines=[line], beam_size=beam, alpha=ALPHA, batch_size=1, **settings)
            for line in words
        ]
        each = [answer["seconds"] for answer in answers]
        written = [recipe.to_ids(answer["lines"][0]) for answer in answers]
        texts = [target.decode([*line, EOS]) for line in written]
        cpu = sum(answer["cpu_seconds"] for answer in answers)
        return Round(sum(each), cpu, texts, sum(map(len, written)), each)

    counted = (
        "joeynmt.prediction.predict of one line in torch.inference_mode: tokens in, search without "
        "alignments, tokens out; no HTTP, tokenising and detokenising are not counted"
    )
    if keep:
        counted += "; its process reuses freed memory, as ours does"
    threads = sorted({data.cores(), 1}, reverse=True)
    return Side(translate, {"threads": threads, "precision": PRECISIONS}, counted)


def _torch_program(run: Run, python: Path, stack: ExitStack) -> peers.Peer:
    """The search in PyTorch with the weights of the run. Raises ValueError for another model."""
    default = dataclasses.asdict(ModelConfig())
    for name, value in dataclasses.asdict(run.config.model).items():
        if name not in FREE and not name.endswith("dropout") and value != default[name]:
            raise ValueError(
                f"--torch-python supports the default model only, but model.{name} of the run is "
                f"{value!r}"
            )
    weights = Path(stack.enter_context(TemporaryDirectory(prefix="torch-"))) / "weights.npz"
    updates.save_parameters(weights, run.params)
    file = Path(process.__file__).with_name("torch_search.py")
    located = process.located("--torch-python", python)
    settings = json.dumps({"weights": str(weights), "eos": EOS})
    return peers.Peer("PyTorch", [str(located), str(file), settings])


def _torch(peer: peers.Peer, run: Run, text: Text) -> Side:
    source, target = run.codecs
    lines = [source.encode(line) for line in text.sources]

    def translate(beam: int, settings: Settings) -> Round:
        found = peer.ask(
            do="translate",
            lines=lines,
            beam_size=beam,
            alpha=ALPHA,
            ratio=SEARCH["max_ratio"],
            **settings,
        )
        texts = [target.decode([*line, EOS]) for line in found["lines"]]
        tokens = sum(map(len, found["lines"]))
        return Round(sum(found["each"]), found["cpu_seconds"], texts, tokens, found["each"])

    counted = (
        "our model with our weights by hand in PyTorch, eager, in torch.inference_mode: ids in, "
        "search without alignments, ids out; no HTTP, tokenising and detokenising are not counted"
    )
    threads = sorted({data.cores(), 1}, reverse=True)
    return Side(translate, {"threads": threads, "precision": PRECISIONS}, counted)
