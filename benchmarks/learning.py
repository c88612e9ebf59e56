"""How long a training takes until its development set is translated well, beside JoeyNMT's.

The two train one after the other, on the same pairs, in the same tokens and sizes. Times are from
the start of the program, its compilation and evaluations included.
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
from bahdanau_jax.config import Config
from bahdanau_jax.evaluation import scores
from bahdanau_jax.reporting import say
from bahdanau_jax.trained import Run, load
from bahdanau_jax.training import read_metrics
from benchmarks import machine
from benchmarks.peers import Failure, process, recipe, serving

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")
ENDING_SECONDS = 120  # a program that saves before it ends may take so long

Bleus = Callable[[], Mapping[int, float]]  # -> updates done at an evaluation: BLEU


def run(
    config: Config,
    workdir: Path,
    target: float,
    minutes: float,
    python: Path | None = None,
    peer_updates: int = 20_000,
) -> dict[str, Any]:
    """Train in new folders of `workdir`, each until it reaches the target or its time is over.

    BLEU is of greedy translations of the whole development set, tokenised and in the case of the
    vocabulary. `python` belongs to an environment with JoeyNMT. Raises ValueError where a folder
    is there already, or where ours fails; where JoeyNMT does, `failed` has its last words.
    """
    ours, theirs = workdir / "ours", workdir / "joeynmt"
    for folder in (ours, theirs):
        if folder.exists():
            raise ValueError(f"{folder} is there already: name another --workdir, or delete it")
    if python is not None:
        python = process.located("JoeyNMT", python)
        say(recipe.unequal(config).rstrip("\n"))
    workdir.mkdir(parents=True, exist_ok=True)
    settings = workdir / "settings.json"
    config.save(settings)
    command = [sys.executable, "-m", __name__, str(settings), str(ours)]
    found: dict[str, Any] = {"machine": machine.describe(PACKAGES), "target_bleu": target}
    log = workdir / "ours.log"
    found["ours"] = watched(
        "training", command, functools.partial(_told, ours), target, minutes, log
    )
    if "failed" in found["ours"]:
        raise ValueError(found["ours"]["failed"])
    if python is not None:
        say(json.dumps(found["ours"]))  # it may be killed
        trained = load(ours, trust_code=True)
        every = trained.config.training.evaluate_every
        recipe.write_text(trained, theirs)
        asked = recipe.configuration(
            trained,
            theirs,
            peer_updates,
            batch_size=trained.config.data.batch_size,
            learning_rate_warmup=trained.config.optimizer.warmup_steps,
            validation_freq=every,
            logging_freq=every,
        )
        settings = theirs / "config.json"
        settings.write_text(json.dumps(asked, indent=2), encoding="utf-8")
        command = recipe.command(python, "train", settings)
        written, log = _written(trained, theirs), workdir / "joeynmt.log"
        found["joeynmt"] = {
            **recipe.sizes(trained.config),
            "training": asked["training"],
            **watched("JoeyNMT", command, written, target, minutes, log),
        }
    return found


def _told(folder: Path) -> Mapping[int, float]:
    """What a training of ours has said of its evaluations."""
    lines = read_metrics(folder)
    return {line["step"]: line["dev_bleu"] for line in lines if "dev_bleu" in line}


def _written(run: Run, folder: Path) -> Bleus:
    """The BLEU of every evaluation that JoeyNMT wrote down, scored as ours are."""
    codec = run.codecs[1]
    pairs = recipe.kept(run, run.config.data.dev)
    references = [codec.tokenize(pair.target) for pair, _ in pairs]
    known: dict[int, float] = {}

    def bleus() -> Mapping[int, float]:
        for file in (folder / "model").glob("*.hyps"):
            lines = file.read_text(encoding="utf-8").splitlines()
            if int(file.stem) not in known and len(lines) == len(references):
                texts = [codec.decode([*recipe.to_ids(line), EOS]) for line in lines]
                tokens = [codec.tokenize(text) for text in texts]
                known[int(file.stem)] = scores.bleu(tokens, references, "none").score
        return known

    return bleus


def watched(
    name: str, command: Sequence[str], bleus: Bleus, target: float, minutes: float, log: Path
) -> dict[str, Any]:
    """The program's evaluations until one reaches the target, or it ends, or the time is over.

    Where it fails, or comes to no evaluation, `failed` has its last words.
    """
    curve: list[dict[str, float]] = []
    try:
        code = _followed(name, command, bleus, target, minutes, log, curve)
    except Failure as error:
        return {"reached": None, "curve": [], "failed": str(error)}
    found = {"reached": next((p for p in curve if p["bleu"] >= target), None), "curve": curve}
    if code or not curve:
        what = f"ended with code {code}" if code else "came to no evaluation"
        said = log.read_text(encoding="utf-8", errors="replace")
        found["failed"] = str(Failure(name, what, said))
    return found


def _followed(
    name: str,
    command: Sequence[str],
    bleus: Bleus,
    target: float,
    minutes: float,
    log: Path,
    curve: list[dict[str, float]],
) -> int | None:
    """Its evaluations into the curve; the code it ended with, or None where it was stopped."""
    start = time.monotonic()
    with log.open("wb") as said, process.begin(name, command, stdout=said, stderr=said) as running:
        try:
            ended = False
            while not ended and time.monotonic() < start + 60 * minutes:
                time.sleep(1)
                spent = _cpu_seconds(running.pid)  # known until an ended process is polled
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
                running.wait(ENDING_SECONDS)
        finally:
            running.kill()
    return code


def _cpu_seconds(pid: int) -> float:
    """Of all threads of a process so far; 0 where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    user, system = fields[11:13]  # utime and stime of proc(5)
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    serving.keep_memory()
    run_module.train(Config.load(Path(sys.argv[1])), Path(sys.argv[2]))
