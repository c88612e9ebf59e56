"""What a run folder holds already, and whether a configuration may go on with it."""

import dataclasses
import hashlib
import json
from pathlib import Path

from bahdanau_jax.atomic import write_text
from bahdanau_jax.config import Config
from bahdanau_jax.data import Prepared
from bahdanau_jax.run_folder import CHECKPOINTS, CONFIG

# In store/: the digests of the pairs that the run began with.
TRAINED_ON = "trained_on"
CHOSEN_ON = "chosen_on"  # of data.dev


def updates_made(workdir: Path) -> int:
    """The newest step that has a checkpoint, by the folders' names; -1 where there is no run."""
    folder = workdir / CHECKPOINTS
    if not (workdir / CONFIG).exists() or not folder.is_dir():
        return -1
    return max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=-1)


def same_data(prepared: Prepared, workdir: Path) -> None:
    """Refuse a folder whose run began with other training or dev pairs, in whatever files."""
    digests = {TRAINED_ON: prepared.train.statistics["digest"]}
    if prepared.dev:
        digests[CHOSEN_ON] = hashlib.sha256(json.dumps(prepared.dev).encode()).hexdigest()
    for name, digest in digests.items():
        record = workdir / "store" / name
        before = record.read_text() if record.exists() else ""
        if not (workdir / CONFIG).exists() or not before:
            write_text(record, digest)
        elif before != digest:
            field = "data.train" if name == TRAINED_ON else "data.dev"
            raise ValueError(
                f"the text of {field} is no longer what the run in {workdir} began with: bring "
                "it back, or choose another folder"
            )


def same_experiment(config: Config, workdir: Path) -> None:
    """Refuse a folder whose run had another model, other data, optimiser or seed.

    Test pairs may change, and dev pairs may come where there were none: neither was trained on.
    """
    if not (Path(workdir) / CONFIG).exists():
        return
    before = Config.load(Path(workdir) / CONFIG)
    sizes = {
        side: getattr(before.model, side)
        for side in ("source_vocabulary", "target_vocabulary")
        if not getattr(config.model, side)
    }
    free = {name: getattr(before.data, name) for name in ("root", "processes", "test")}
    free |= {} if before.data.dev else {"dev": ""}
    now = dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, **sizes),
        data=dataclasses.replace(config.data, **free),
    )
    differences = []
    for section in ("model", "data", "optimizer", "training"):
        old, new = getattr(before, section), getattr(now, section)
        for field in dataclasses.fields(old):
            was, is_now = getattr(old, field.name), getattr(new, field.name)
            if was != is_now and (section != "training" or field.name == "seed"):
                differences.append(f"{section}.{field.name} is {was!r}, not {is_now!r}")
    if differences:
        raise ValueError(
            f"{workdir} holds another run: its {'; its '.join(differences)}; choose another "
            "folder, or the settings it was made with"
        )
