"""What a run folder holds already, and whether a configuration may go on with it."""

import dataclasses
from pathlib import Path

from bahdanau_jax import data, training
from bahdanau_jax.config import Config
from bahdanau_jax.trained import CHECKPOINTS, CONFIG

TRAINED_ON = "trained_on"  # in store/: the digest of the pairs that the run began with


def updates_made(workdir: Path) -> int | None:
    """The step of the newest checkpoint whose metadata can be read; None where there is no run."""
    if not (workdir / CONFIG).exists() or not (workdir / CHECKPOINTS).is_dir():
        return None
    entries = training.inventory(workdir / CHECKPOINTS)
    return max((entry.step for entry in entries if not entry.damaged), default=None)


def same_data(store: data.Store, workdir: Path) -> None:
    """Refuse a folder whose run began with other training pairs, whatever files they lie in."""
    record, digest = workdir / "store" / TRAINED_ON, store.statistics["digest"]
    if (workdir / CONFIG).exists() and record.exists():
        if record.read_text() != digest:
            raise ValueError(
                f"the text of data.train is no longer what the run in {workdir} began with: bring "
                "it back, or choose another folder"
            )
    else:
        record.write_text(digest)


def same_experiment(config: Config, workdir: Path) -> None:
    """Refuse a folder whose run had another model, other data, optimiser or seed."""
    if not (Path(workdir) / CONFIG).exists():
        return
    before = Config.load(Path(workdir) / CONFIG)
    sizes = {
        side: getattr(before.model, side)
        for side in ("source_vocabulary", "target_vocabulary")
        if not getattr(config.model, side)
    }
    sizes["attention_kernel"] = before.model.attention_kernel  # computes the same, and may change
    now = dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, **sizes),
        data=dataclasses.replace(
            config.data, root=before.data.root, processes=before.data.processes
        ),
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
