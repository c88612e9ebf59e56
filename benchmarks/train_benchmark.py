"""Times an update, and compares it with other programs and with the limit of the machine.

Every program runs in a process of its own, and ours in a new one for each peer. The two run in
turn. Rates are medians over the rounds, and a ratio is that of two medians. The limit is the rate
of a product of two large matrices in our compute dtype, the highest of all libraries, measured in
the same processes and rounds.
"""

import functools
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bahdanau_jax import data, model
from bahdanau_jax.names import choose
from bahdanau_jax.reporting import say
from benchmarks import machine, sizes
from benchmarks.peers import process
from benchmarks.peers.process import Failure, Peer
from benchmarks.sizes import Size

PROGRAMS = Path(__file__).parent / "peers"
ON_CPU = 4096, 2  # rows of the large matrices, and products in a round
ON_ACCELERATORS = 8192, 20  # the same on accelerators, which are faster
SECONDS = 2.0  # the least time of a round
PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")
Settings = Mapping[str, Any]


class Contestant(NamedTuple):
    """A program that runs updates, and the candidates for its settings."""

    what: str
    command: Callable[[str, Path | None], list[str]]  # (name, Python) -> command without JSON
    choices: Mapping[str, Sequence[Any]]
    flops: Callable[[Size], int] = sizes.flops  # operations of the products in an update
    compute_dtype: str = ""  # of its products, where it is always the same; else ours

    def with_dtype(self, compute_dtype: str) -> "Contestant":
        """The program with our compute dtype; with bfloat16, PyTorch may use autocast."""
        autocast = (False,) if compute_dtype == "float32" else (True, False)
        changed = {"compute_dtype": (compute_dtype,), "autocast": autocast}
        choices = {n: changed.get(n, v) for n, v in self.choices.items()}
        return self._replace(choices=choices, compute_dtype=self.compute_dtype or compute_dtype)


def _here(name: str, python: Path | None) -> list[str]:
    return process.ours("benchmarks.updates")


def _there(file: str) -> Callable[[str, Path | None], list[str]]:
    def command(name: str, python: Path | None) -> list[str]:
        if python is None:
            raise ValueError(
                f"the peer {name} needs --torch-python: the Python of an environment that has it"
            )
        return [str(process.located(f"the peer {name}", python)), str(PROGRAMS / file)]

    return command


def _threads() -> tuple[int, ...]:
    return tuple(sorted({data.cores(), 1}, reverse=True))


_COMPUTE_DTYPE = {"compute_dtype": ("float32",)}
_EAGER = {"compile": (False,), "compile_update": (False,)}
_ALLOCATOR = {"autocast": (False,), "threads": _threads(), "keep_memory": (True, False)}
OURS_NAME = "ours"
OURS = Contestant("the project's train_step", _here, _COMPUTE_DTYPE)
PEERS: Mapping[str, Contestant] = MappingProxyType(
    {
        "jax": Contestant(
            "plain JAX in float32: scan, autodiff, all logits at once",
            _here,
            {},
            compute_dtype="float32",
        ),
        "bfloat16": Contestant(
            "ours with model.compute_dtype=bfloat16", _here, {}, compute_dtype="bfloat16"
        ),
        "torch": Contestant(
            "hand-written PyTorch, eager",
            _there("torch_step.py"),
            {**_ALLOCATOR, "foreach": (False, True), **_EAGER},
        ),
        "torch-compiled": Contestant(
            "hand-written PyTorch, torch.compile",
            _there("torch_step.py"),
            {
                **_ALLOCATOR,
                "threads": _threads()[:1],
                "foreach": (False,),
                "compile": (True,),
                "compile_update": (False, True),
            },
        ),
        "torch-cudnn": Contestant(
            "hand-written PyTorch, eager, with torch.nn.GRU as encoder (cuDNN on a GPU), whose "
            "reset gate differs; no library has the decoder",
            _there("torch_step.py"),
            {**_ALLOCATOR, "foreach": (False, True), **_EAGER, "encoder": ("library",)},
        ),
        "joeynmt": Contestant(
            "JoeyNMT's recurrent model, attention bahdanau; its softmax reads n units, not l",
            _there("joey_step.py"),
            _ALLOCATOR,
            sizes.joeynmt,
        ),
        "summed-in-loops": Contestant(
            "ours with gradients=autodiff: weight gradients added up in every step of a loop, and "
            "the logits of each chunk computed twice",
            _here,
            _COMPUTE_DTYPE,
        ),
        "vmapped": Contestant(
            "ours, ten models with weights of their own in vmapped programs; its seconds are those "
            "of one model, its memory that of all",
            _here,
            _COMPUTE_DTYPE,
        ),
        "vmapped-own": Contestant(
            "the same, each model with batches of its own", _here, _COMPUTE_DTYPE
        ),
    }
)


class Round(NamedTuple):
    seconds: float  # of an update of one model
    matrix: float  # floating point operations per second of the large product


def run(
    size: str = "small",
    peers: Sequence[str] = ("jax",),
    rounds: int = 5,
    torch_python: Path | None = None,
    lengths: Sequence[int] = (),
    compute_dtype: str = "float32",
    batches: Sequence[int] = (),
) -> dict[str, Any]:
    """Measure ours and each peer in the named size.

    `lengths` replace its S = T, and `batches` its B. `compute_dtype` is that of ours; with
    bfloat16, PyTorch uses autocast where that is faster. A peer that fails has `failed` with its
    error. Raises ValueError for unknown names, and where ours fails.
    """
    chosen = choose(sizes.SIZES, size, "size")
    choose(model.COMPUTE_DTYPES, compute_dtype, "compute_dtype")
    contestants = {name: choose(PEERS, name, "peer").with_dtype(compute_dtype) for name in peers}
    for name, peer in contestants.items():
        peer.command(name, torch_python)  # raises errors before any work
    if torch_python and all(peer.command is _here for peer in contestants.values()):
        raise ValueError("--torch-python needs a peer that runs in it: name one with --peers")
    if lengths:
        chosen = [chosen[0]._replace(S=length, T=length) for length in lengths]
    chosen = [each._replace(B=rows or each.B) for each in chosen for rows in batches or [0]]
    return {
        "machine": machine.describe(PACKAGES),
        "rounds": rounds,
        "compute_dtype": compute_dtype,
        "sizes": [
            _measure(each, OURS.with_dtype(compute_dtype), contestants, rounds, torch_python)
            for each in chosen
        ],
    }


def _measure(
    size: Size,
    program: Contestant,
    contestants: Mapping[str, Contestant],
    rounds: int,
    python: Path | None,
) -> dict[str, Any]:
    say(f"size {size}")
    words = size.B * size.T
    results: dict[str, Any] = {
        "size": size._asdict(),
        "target_words": words,
        "mflop_per_word": round(sizes.flops(size) / words / 1e6, 1),
    }
    settings = {field: values[0] for field, values in program.choices.items()}
    with start(program, OURS_NAME, size, settings, None) as ours:
        results["ours"] = {**ours.greeting, "memory": ours.ask(do="memory")}
        count = _updates_in_a_round(ours)
    begin = functools.partial(start, program, OURS_NAME, size, settings, None)
    results["peers"], our_rounds = {}, []
    for name, peer in contestants.items():
        try:
            take = functools.partial(turn, count=count, compute_dtype=program.compute_dtype)
            result, turns = _compare(peer, name, size, python, begin, take, rounds)
        except Failure as error:
            if error.name == OURS_NAME:
                raise
            say(str(error))
            result, turns = {"what": peer.what, "failed": str(error)}, []
        results["peers"][name] = result
        say(json.dumps({name: result}))  # the user has it even if a later peer is interrupted
        our_rounds += turns
    if not our_rounds:
        with begin() as ours:
            our_rounds = [turn(ours, count, program.compute_dtype) for _ in range(rounds)]
    results["ours"] |= {"compute_dtype": program.compute_dtype}
    results["ours"] |= rates(our_rounds, size, program.flops(size))
    every = results["ours"], *results["peers"].values()
    measured = [result for result in every if "failed" not in result]
    alike = [each for each in measured if each["compute_dtype"] == program.compute_dtype]
    limit = results["limit_gflops"] = max(each["matrix_gflops"] for each in alike)
    for result in measured:
        result["share_of_limit"] = round(result["gflops"] / limit, 3)
    return results


def _compare(
    contestant: Contestant,
    name: str,
    size: Size,
    python: Path | None,
    begin: Callable[[], Peer],
    take: Callable[..., Round],
    n: int,
) -> tuple[dict[str, Any], list[Round]]:
    """Measure a peer and ours in turn; return the peer's results with ratios, and our rounds.

    Ours has a new process for each peer, because the memory layout of a process changes its speed
    by some percent.
    """
    tuned = tune(contestant, name, size, python)
    with begin() as ours, start(contestant, name, size, tuned["settings"], python) as peer:
        about = {"what": contestant.what, "compute_dtype": contestant.compute_dtype}
        result = {**about, **peer.greeting, **tuned}
        result["memory"] = peer.ask(do="memory")
        pairs = []
        for number in range(n):
            pairs.append((take(ours), take(peer, compute_dtype=contestant.compute_dtype)))
            say(
                f"{name} {number + 1}/{n}: "
                + " beside ".join(f"{p.seconds:.3f} s" for p in pairs[-1])
            )
    mine, theirs = ([pair[i] for pair in pairs] for i in (0, 1))
    result |= rates(theirs, size, contestant.flops(size))
    result["ours_beside_it"] = rates(mine, size, OURS.flops(size))
    ratio = result["seconds_per_update"] / result["ours_beside_it"]["seconds_per_update"]
    result["ours_over_it"] = round(ratio, 3)
    return result, mine


def rates(rounds: Sequence[Round], size: Size, flops: int) -> dict[str, Any]:
    """Medians over rounds. `flops` is the number of operations in an update.

    `matrix_gflops` is the rate of the large product in the same library.
    """
    seconds = statistics.median(each.seconds for each in rounds)
    matrix = statistics.median(each.matrix for each in rounds)
    return {
        "target_words_per_second": round(size.B * size.T / seconds, 1),
        "seconds_per_update": round(seconds, 5),
        "rounds": [round(each.seconds, 5) for each in rounds],
        "matrix_gflops": round(matrix / 1e9, 1),
        "gflops": round(flops / seconds / 1e9, 1),
        "share_of_matrix_rate": round(flops / seconds / matrix, 3),
    }


def turn(program: Peer, count: int, compute_dtype: str) -> Round:
    models = program.greeting.get("models", 1)
    seconds = program.ask(do="step", count=count)["seconds"] / count / models
    on_cpu = program.greeting["device"] == "cpu"
    rows, repeats = ON_CPU if on_cpu else ON_ACCELERATORS
    matrix = program.ask(do="matrix", size=rows, repeats=repeats, compute_dtype=compute_dtype)
    return Round(seconds, matrix["flops_per_second"])


def _updates_in_a_round(program: Peer) -> int:
    return max(1, round(SECONDS / program.ask(do="step", count=1)["seconds"]))


def tune(contestant: Contestant, name: str, size: Size, python: Path | None) -> dict[str, Any]:
    """Find the fastest settings by changing one at a time. The faster of two updates counts."""
    best = {field: values[0] for field, values in contestant.choices.items()}
    seconds: dict[tuple, float] = {}

    def cost(settings: Settings) -> float:
        key = tuple(settings.values())
        if key not in seconds:
            with start(contestant, name, size, settings, python) as peer:
                seconds[key] = min(peer.ask(do="step", count=1)["seconds"] for _ in range(2))
            say(f"{name} {dict(settings)}: {seconds[key]:.3f} s")
        return seconds[key]

    for field, values in contestant.choices.items():
        if len(values) > 1:
            best = min(({**best, field: value} for value in values), key=cost)
    tried = [
        {**dict(zip(best, key, strict=True)), "seconds": round(value, 4)}
        for key, value in seconds.items()
    ]
    return {"settings": best, "tried": tried}


def start(
    contestant: Contestant,
    name: str,
    size: Size,
    settings: Settings,
    python: Path | None,
    weights="",
) -> Peer:
    request = {"program": name, "size": size._asdict(), "settings": settings, "weights": weights}
    return Peer(name, [*contestant.command(name, python), json.dumps(request)])
