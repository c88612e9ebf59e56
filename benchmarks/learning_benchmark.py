"""Times a training until its dev pairs reach a BLEU, and compares it with JoeyNMT's.

The two train one after the other, on the same pairs, with the same tokens and sizes. Times include
the start of the program, compilation and evaluations.
"""

import contextlib
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bahdanau_jax import run as run_module
from bahdanau_jax.batch import EOS
from bahdanau_jax.cli import jax_defaults
from bahdanau_jax.config import Config
from bahdanau_jax.evaluation import scores
from bahdanau_jax.reporting import say
from bahdanau_jax.trained import Run, load
from bahdanau_jax.training import read_metrics
from benchmarks import machine
from benchmarks.peers import Failure, process, recipe

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")
MOST_UPDATES = 10**9  # of JoeyNMT, whose time ends before
ENDING_SECONDS = 120  # the longest wait for a program that saves before it ends

Bleus = Callable[[], Mapping[int, float]]  # -> updates done at an evaluation: BLEU


def run(
    config: Config,
    workdir: Path,
    target: float,
    minutes: float,
    python: Path | None = None,
) -> dict[str, Any]:
    """Train in new folders of `workdir`, each until the target BLEU or the time limit.

    BLEU is that of greedy translations of all dev pairs, tokenised and in the case of the
    vocabulary; JoeyNMT has those without an empty side. `python` is that of an environment with
    JoeyNMT. Raises ValueError where a folder or file exists already, or where ours fails. Where
    JoeyNMT fails, `failed` has its error.
    """
    ours, theirs, settings = workdir / "ours", workdir / "joeynmt", workdir / "settings.json"
    logs = {folder: folder.with_suffix(".log") for folder in (ours, theirs)}
    for path in (ours, theirs, settings, *logs.values()):
        if path.exists():
            raise ValueError(f"{path} exists already: name another --workdir, or delete it")
    if python is not None:
        python = process.located("JoeyNMT", python)
        say(recipe.unequal(config).rstrip("\n"))
    workdir.mkdir(parents=True, exist_ok=True)
    config.save(settings)
    command = process.ours(__name__, str(settings), str(ours))
    results: dict[str, Any] = {"machine": machine.describe(PACKAGES), "target_bleu": target}
    scores_of_ours = functools.partial(bleus, ours)
    results["ours"] = watched("training", command, scores_of_ours, target, minutes, logs[ours])
    if "failed" in results["ours"]:
        raise ValueError(results["ours"]["failed"])
    if python is not None:
        say(json.dumps(results["ours"]))  # the user may stop JoeyNMT
        trained = load(ours, trust_code=True)
        every = trained.config.training.evaluate_every
        recipe.write_text(trained, theirs)
        peer_config = recipe.configuration(
            trained,
            theirs,
            MOST_UPDATES,
            batch_size=trained.config.data.batch_size,
            learning_rate_warmup=trained.config.optimizer.warmup_steps,
            validation_freq=every,
            logging_freq=every,
        )
        settings = theirs / "config.json"
        settings.write_text(json.dumps(peer_config, indent=2), encoding="utf-8")
        command = recipe.command(python, "train", settings)
        written = _written(trained, theirs)
        results["joeynmt"] = {
            **recipe.sizes(trained.config),
            "training": peer_config["training"],
            **watched("JoeyNMT", command, written, target, minutes, logs[theirs]),
        }
    return results


def bleus(folder: Path) -> Mapping[int, float]:
    """The BLEU of every evaluation of our training so far."""
    lines = read_metrics(folder)
    return {line["step"]: line["dev_bleu"] for line in lines if "dev_bleu" in line}


def _written(run: Run, folder: Path) -> Bleus:
    """A function that scores the translations of JoeyNMT's evaluations so far, as ours are."""
    codec = run.codecs[1]
    pairs = recipe.kept(run, run.config.data.dev)
    references = [codec.tokenize(pair.target) for pair, _ in pairs]
    by_step: dict[int, float] = {}

    def scored() -> Mapping[int, float]:
        for file in (folder / "model").glob("*.hyps"):
            lines = file.read_text(encoding="utf-8").splitlines()
            if int(file.stem) not in by_step and len(lines) == len(references):
                texts = [codec.decode([*recipe.to_ids(line), EOS]) for line in lines]
                tokens = [codec.tokenize(text) for text in texts]
                by_step[int(file.stem)] = scores.bleu(tokens, references, "none").score
        return by_step

    return scored


def watched(
    name: str,
    command: Sequence[str],
    bleus: Bleus,
    target: float,
    minutes: float,
    log: Path,
    ending_seconds: float = ENDING_SECONDS,
) -> dict[str, Any]:
    """Run a program until an evaluation reaches the target, it ends, or its time is over.

    Where it fails or ends without an evaluation, `failed` has its error.
    """
    curve: list[dict[str, float]] = []
    try:
        code = _followed(name, command, bleus, target, minutes, log, curve, ending_seconds)
    except Failure as error:
        return {"reached": None, "curve": [], "failed": str(error)}
    result = {"reached": next((p for p in curve if p["bleu"] >= target), None), "curve": curve}
    if code or not curve:
        fault = f"ended with code {code}" if code else "came to no evaluation"
        output = log.read_text(encoding="utf-8", errors="replace")
        result["failed"] = str(Failure(name, fault, output))
    return result


def _followed(
    name: str,
    command: Sequence[str],
    bleus: Bleus,
    target: float,
    minutes: float,
    log: Path,
    curve: list[dict[str, float]],
    ending_seconds: float,
) -> int | None:
    """Add its evaluations to the curve; return its exit code, or None where it was stopped."""
    start = time.monotonic()
    with log.open("wb") as out, process.begin(name, command, stdout=out, stderr=out) as running:
        try:
            ended = False
            while not ended and time.monotonic() < start + 60 * minutes:
                time.sleep(1)
                spent = _cpu_seconds(running.pid)  # read before `poll` removes an ended process
                ended = running.poll() is not None
                seconds = round(time.monotonic() - start, 1)
                new = sorted(bleus().items())[len(curve) :]
                curve += [
                    {"updates": at, "seconds": seconds, "cpu_seconds": spent, "bleu": round(b, 2)}
                    for at, b in new
                ]
                ended = ended or any(point["bleu"] >= target for point in curve)
            code = running.poll()
            running.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(ending_seconds)
        finally:
            running.kill()
    return code


def _cpu_seconds(pid: int) -> float:
    """The CPU seconds of all threads of a process so far; 0 without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    user, system = fields[11:13]  # utime and stime of proc(5)
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """The program of our training, as `bahdanau train`: a configuration and a new run folder."""
    jax_defaults.keep_memory()
    jax_defaults.collect_rarely()
    run_module.train(Config.load(Path(sys.argv[1])), Path(sys.argv[2]))
