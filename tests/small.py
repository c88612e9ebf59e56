"""A small configuration, which the command line trains in seconds to write short sentences."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from bahdanau_jax.config import (
    Config,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    OptimizerConfig,
    TrainingConfig,
)

FILE = Path(__file__).resolve()
ROOT = FILE.parents[1]

config = Config(
    model=ModelConfig(embedding_size=31, hidden_size=48, alignment_size=23, readout_size=29),
    data=DataConfig(
        train="builtin:en-fr/train?pairs=300&max=6",
        dev="builtin:en-fr/dev?pairs=12&max=6",
        test="builtin:en-fr/test?pairs=12&max=6",
        batch_size=100,
        shapes=1,
    ),
    optimizer=OptimizerConfig(
        name="adam", learning_rate=2e-2, warmup_steps=5, loss_normalization="token", epsilon=1e-8
    ),
    training=TrainingConfig(steps=30, log_every=4, evaluate_every=10, checkpoint_every=7),
    decoding=DecodingConfig(beam_size=3, batch_size=12),
)


def bahdanau(*arguments, **options) -> subprocess.CompletedProcess:
    """Run the command line in its own process."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=ROOT, **options)


def measured(program: Path, *arguments: str) -> dict:
    """Run a program in its own process; return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# A message between devices in a compiled program: (types sent, name).
MESSAGES = re.compile(
    r"= (.*?) (all-reduce|all-gather|collective-permute|all-to-all|reduce-scatter)\("
)


def command(*arguments) -> list[str]:
    return [sys.executable, "-m", "bahdanau_jax", *map(str, arguments)]


def train(workdir: Path, *overrides) -> list[str]:
    """The arguments that train this configuration."""
    return ["train", str(FILE), "--workdir", str(workdir), *map(str, overrides)]
