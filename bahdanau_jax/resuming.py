"""Whether a configuration and its text can resume the run of a folder, or extend a sweep."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from bahdanau_jax.atomic import write_text
from bahdanau_jax.config import Config
from bahdanau_jax.data import Pair, Prepared
from bahdanau_jax.run_folder import CONFIG, STORE, check_can_hold_run

# Files in store/ with the digests of the pairs at the first start of the run.
TRAINED_ON = "trained_on"  # of data.train
CHOSEN_ON = "chosen_on"  # of data.dev
_FIELDS = {TRAINED_ON: "data.train", CHOSEN_ON: "data.dev"}


def check_or_record_data(prepared: Prepared, workdir: Path) -> None:
    """Raise ValueError where the run in the folder began with other training or dev pairs."""
    for name, digest in _digests(prepared.train.statistics["digest"], prepared.dev).items():
        record = workdir / STORE / name
        before = record.read_text() if record.exists() else ""
        if not (workdir / CONFIG).exists() or not before:
            write_text(record, digest)
        elif before != digest:
            raise ValueError(changed(_FIELDS[name], f"the run in {workdir}"))


def check_or_record_text(
    digest: str, dev: Sequence[Pair], shared: Path, runs: Sequence[Path]
) -> None:
    """Raise ValueError where a sweep began with training pairs of another digest, or other dev.

    They are those of earlier runs that share the prepared data, or of these `runs`.
    """
    digests = _digests(digest, dev)
    for name, now in digests.items():
        records = [folder / STORE / name for folder in (shared, *runs)]
        if any(record.exists() and record.read_text() != now for record in records):
            raise ValueError(changed(_FIELDS[name], "the sweep"))
    for name, now in digests.items():
        write_text(shared / STORE / name, now)


def _digests(of_train: str, dev: Sequence[Pair]) -> dict[str, str]:
    """The digests by the names of their files; none of dev pairs where there are none."""
    digests = {TRAINED_ON: of_train}
    if dev:
        digests[CHOSEN_ON] = hashlib.sha256(json.dumps(dev).encode()).hexdigest()
    return digests


def changed(field: str, what: str) -> str:
    """The message where the text of a setting has changed since a run or a sweep began."""
    return (
        f"the text of {field} is no longer what {what} began with: restore it, or choose another "
        "folder"
    )


def check_experiment(config: Config, workdir: Path) -> None:
    """Raise ValueError where the folder's run has another model, data, optimiser, seed or metric.

    Other test pairs are allowed. Where there were no dev pairs, so are these and another metric.
    """
    check_can_hold_run(Path(workdir))
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
    fixed = ("seed", "dev_metric") if before.data.dev else ("seed",)  # fields of training
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
            if was != is_now and (section != "training" or field.name in fixed):
                differences.append(f"{section}.{field.name} is {was!r}, not {is_now!r}")
    if differences:
        raise ValueError(
            f"{workdir} holds another run: its {'; its '.join(differences)}; choose another "
            "folder, or the settings it was made with"
        )
