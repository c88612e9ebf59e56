"""A small configuration that tests train on several devices and by several processes.

As a program, `across.py WORKDIR`, it trains the runs that one process can train.
"""

import dataclasses
import shutil
import sys
from pathlib import Path

from bahdanau_jax.config import OptimizerConfig, TrainingConfig
from tests import small

STEPS, HALF = 12, 6  # of an epoch of 15
FILE = Path(__file__).resolve()

config = dataclasses.replace(
    small.config,
    model=dataclasses.replace(
        small.config.model,
        init="glorot",
        embedding_dropout=0.1,
        annotation_dropout=0.2,
        readout_dropout=0.3,
    ),
    data=dataclasses.replace(small.config.data, test="", batch_size=20),
    optimizer=OptimizerConfig(),
    training=TrainingConfig(
        steps=STEPS, log_every=1, evaluate_every=HALF, checkpoint_every=4, dev_metric="loss"
    ),
)


def main(folder: Path) -> None:
    """Train FOLDER/DEVICES, and resume copies of half runs on other numbers of devices."""
    import jax

    jax.config.update("jax_num_cpu_devices", 8)
    from bahdanau_jax import distributed, run

    mesh = distributed.mesh

    def train(devices: int, name: str, steps: int, **settings) -> None:
        distributed.mesh = lambda: mesh(jax.devices()[:devices])
        changed = dataclasses.replace(config.training, steps=steps, **settings)
        run.train(dataclasses.replace(config, training=changed), folder / name)

    train(1, "1", STEPS)
    train(4, "4", STEPS)
    for before, after in ((1, 8), (8, 1)):
        train(before, f"{before}-half", HALF)
        shutil.copytree(folder / f"{before}-half", folder / f"{before}-{after}")
        train(after, f"{before}-{after}", STEPS)
    shutil.copytree(folder / "8-half", folder / "8-split")
    train(8, "8-split", STEPS, shard="vocabulary", accumulate=2)
    shutil.copytree(folder / "8-half", folder / "8-pmap")
    train(4, "8-pmap", STEPS, parallel="pmap")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
