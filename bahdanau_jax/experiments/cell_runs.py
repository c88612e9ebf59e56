"""The runs of one cell of a sweep: their folders, their training, their scores."""

import dataclasses
import functools
import hashlib
import itertools
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bahdanau_jax import data, model, run, run_folder
from bahdanau_jax.atomic import write_text
from bahdanau_jax.config import Config, DataConfig
from bahdanau_jax.experiments.sweep_cells import DATA, seed_folder
from bahdanau_jax.experiments.sweep_definition import FREE
from bahdanau_jax.experiments.sweep_texts import digest_of_pairs, link_prepared
from bahdanau_jax.parsing import parse_json
from bahdanau_jax.report import (
    DEFAULTS,
    Evaluated,
    Settings,
    TestPairs,
    as_json,
    evaluate_test_pairs,
)
from bahdanau_jax.reporting import PLAIN, Reporter
from bahdanau_jax.resuming import check_or_record_text
from bahdanau_jax.trained import Run, load
from bahdanau_jax.training import SHARED, Diverged, why_not_vmapped
from bahdanau_jax.user_errors import describe, is_user_error

log = logging.getLogger(__name__)

SCORES = "sweep_scores.json"  # in a run folder
TRANSLATIONS = "translations.txt"  # of the test pairs, in a run folder
MOST_VMAPPED = 2_000_000  # the most parameters of a model whose seeds train vmapped by default
ENDED = "sweep_training.json"  # in the folder of a run whose training has ended


class CellOutcome(NamedTuple):
    """What became of the runs of a cell."""

    scores: Mapping[int, dict[str, Any]]  # by seed
    failed: Mapping[str, str]  # the error of a run, by "CELL/seed-N"


class CellRuns:
    """The runs of one cell, each in an ordinary run folder: WORKDIR/CELL/seed-N.

    Where seeds train vmapped, each of `groups` trains by itself. An interrupted group resumes
    as the same group, so that its results stay the same. In a shared order, all groups have the
    batches of the first seed of all. `failed` has the error of each run that failed, by
    "CELL/seed-N".
    """

    def __init__(
        self,
        workdir: Path,
        name: str,
        config: Config,
        groups: Sequence[Sequence[int]],
        order: str = SHARED,
        settings: Settings = DEFAULTS,
        tests: Mapping[str, str] = MappingProxyType({}),
        reporter: Reporter = PLAIN,
    ):
        self.workdir, self.name, self.config, self.groups = workdir, name, config, groups
        self.order, self.settings, self.reporter = order, settings, reporter
        self.seeds = [*itertools.chain.from_iterable(groups)]
        self.tests = dict(tests)
        self._pairs: dict[DataConfig, TestPairs] = {}
        self._vocabulary: Mapping[str, int] | None = None  # the entries of each side
        self.failed: dict[str, str] = {}

    def folder(self, seed: int) -> Path:
        return seed_folder(self.workdir, self.name, seed)

    def _config(self, seed: int) -> Config:
        training = dataclasses.replace(self.config.training, seed=seed)
        return dataclasses.replace(self.config, training=training)

    def _fail(self, seed: int, error: Exception) -> None:
        """Report the error of a run; those of this program with their traceback."""
        known = is_user_error(error)
        lines = (describe(error) if known else str(error)).strip().splitlines()
        text = lines[0] if known else ": ".join([type(error).__name__, *lines[:1]])
        self.failed[f"{self.name}/seed-{seed}"] = text
        log.warning("%s failed: %s", self.folder(seed), text, exc_info=None if known else error)

    def prepare(self) -> None:
        """Prepare the data of the runs that have not ended. Raises ValueError for its faults."""
        for group in self._missing():
            try:
                self._vocabulary = self._share_data(group)
            except ValueError as error:
                raise ValueError(f"cell {self.name}: {error}") from error

    def train(self, vmapped: bool | None = None) -> None:
        """Train the runs that have not ended. `vmapped`: see `sweep`."""
        for group, missing in self._missing().items():
            try:
                self._vocabulary = self._vocabulary or self._share_data(group)
                in_one = self.trains_vmapped(vmapped)
                self._forget_scores(group if in_one else missing)
            except Exception as error:
                for seed in missing:
                    self._fail(seed, error)
                continue
            if in_one:
                self._train_vmapped(group, missing)
            else:
                for seed in missing:
                    self._train(seed)

    def _forget_scores(self, seeds: Sequence[int]) -> None:
        """Remove the scores of an earlier training of these runs."""
        for seed, name in itertools.product(seeds, (SCORES, TRANSLATIONS)):
            (self.folder(seed) / name).unlink(missing_ok=True)

    def _missing(self) -> dict[tuple[int, ...], list[int]]:
        """The seeds that have not ended, by their group."""
        missing = ((own, [n for n in own if not self._has_ended(n)]) for own in self.groups)
        return {tuple(group): seeds for group, seeds in missing if seeds}

    def _has_ended(self, seed: int) -> bool:
        """Whether a run has ended and kept its updates. One that diverged would do so again."""
        if (ended := _ended(self.folder(seed))) is None:
            return False
        if ended["diverged"]:
            self.failed[f"{self.name}/seed-{seed}"] = ended["diverged"]
            return True
        return run_folder.updates_made(self.folder(seed)) >= ended["updates"]

    def _end(self, seed: int, error: Exception | None, group: Sequence[int]) -> None:
        """Record the end of a run, with the group of a vmapped program; () for a run in turn."""
        if error is not None:
            self._fail(seed, error)
        if error is None or isinstance(error, Diverged):
            text = str(error).splitlines()[0] if error else None
            updates = run_folder.updates_made(self.folder(seed))
            ended = {"diverged": text, "group": list(group), "updates": updates}
            write_text(self.folder(seed) / ENDED, json.dumps(ended) + "\n")

    def _train(self, seed: int) -> None:
        error = None
        try:
            run.train(self._config(seed), self.folder(seed), reporter=self.reporter)
        except Exception as caught:
            error = caught
        self._end(seed, error, ())

    def _train_vmapped(self, group: Sequence[int], missing: Sequence[int]) -> None:
        """Train a group again; a failure loses the `missing` runs, and others that lose updates."""
        configs, folders = map(self._config, group), map(self.folder, group)
        first = self.groups[0][0]
        failed: Mapping[int, Exception]
        try:
            failed = run.train_vmapped([*configs], [*folders], self.order, first, self.reporter)
        except Exception as error:
            failed = dict.fromkeys(range(len(group)), error)
        for index, seed in enumerate(group):
            if seed in missing or not self._has_ended(seed):
                self._end(seed, failed.get(index), group)

    def trains_vmapped(self, vmapped: bool | None) -> bool | None:
        """Whether the seeds train vmapped (see `sweep`); None where none is left to train."""
        if self._vocabulary is None:
            return None
        if vmapped is None:
            sized = self.config.with_vocabularies(**self._vocabulary).model
            size = model.count(model.shapes(sized))
            vmapped = size <= MOST_VMAPPED and not why_not_vmapped(self.config.training)
        return vmapped and len(self.seeds) > 1

    def _share_data(self, seeds: Sequence[int]) -> Mapping[str, int]:
        """Prepare the data once for all cells that use it, and link its files into new run folders.

        Returns the number of entries of each vocabulary. Raises ValueError for another text.
        """
        fields = dataclasses.asdict(self.config.data).items()
        text = json.dumps({k: v for k, v in fields if f"data.{k}" not in FREE}, sort_keys=True)
        shared = self.workdir / DATA / hashlib.sha256(text.encode()).hexdigest()[:12]
        statistics = run.prepare(self.config, shared, self.reporter.stage)
        config = self.config.data
        dev = [*data.pairs(config.dev, config)] if config.dev else []
        check_or_record_text(statistics["digest"], dev, shared, [*map(self.folder, self.seeds)])
        for seed in seeds:
            if not (self.folder(seed) / run_folder.CONFIG).exists():
                link_prepared(shared, self.folder(seed))
        return statistics["vocabulary"]

    def score(self) -> dict[int, dict[str, Any]]:
        """The scores of every run that is complete, from its folder or computed now."""
        scores = {}
        for seed in self.seeds:
            if f"{self.name}/seed-{seed}" not in self.failed:
                try:
                    scores[seed] = self._scored(self.folder(seed))
                except Exception as error:
                    self._fail(seed, error)
        return scores

    @functools.cached_property
    def _texts(self) -> dict[str, str]:
        """The digest of the test pairs of each address."""
        addresses = self.config.data.test, *self.tests.values()
        return {address: digest_of_pairs(address, self.config.data) for address in addresses}

    def stored_scores(self) -> dict[int, dict[str, Any]]:
        """The scores of the runs whose folders have them; no run is scored now."""
        ended = filter(self._has_ended, self.seeds)
        scores = {seed: self._stored(self.folder(seed)) for seed in ended}
        return {seed: found for seed, found in scores.items() if found is not None}

    def _stored(self, folder: Path) -> dict[str, Any] | None:
        """The scores of these settings; None where they or the translations are missing."""
        try:
            stored = parse_json((folder / SCORES).read_text(encoding="utf-8"))
            same = stored["settings"] == self._settings(folder)
            return stored["scores"] if same and (folder / TRANSLATIONS).exists() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _scored(self, folder: Path) -> dict[str, Any]:
        made, steps = run_folder.updates_made(folder), self.config.training.steps
        if made > steps:
            raise ValueError(f"{folder} has {made} updates, above {steps}: remove its checkpoints")
        if (stored := self._stored(folder)) is not None:
            return stored
        trained = self._load(folder)
        evaluated = self._evaluate(trained)
        write_text(folder / TRANSLATIONS, "".join(f"{text}\n" for text in evaluated.texts))
        scores = evaluated.scores
        if self.tests:
            read = {name: _reading(trained, test=address) for name, address in self.tests.items()}
            scores |= {"tests": {name: self._evaluate(each).scores for name, each in read.items()}}
        text = as_json({"settings": self._settings(folder), "scores": scores})
        write_text(folder / SCORES, text)
        return parse_json(text)["scores"]

    def _settings(self, folder: Path) -> dict[str, Any]:
        """All that the scores of a run depend on."""
        settings = {
            "steps": self.config.training.steps,
            "updates": run_folder.updates_made(folder),
            "tests": [self.config.data.test, dict(self.tests)],
            "digests": self._texts,
            **dataclasses.asdict(self.settings),
        }
        return json.loads(json.dumps(settings))

    def _load(self, folder: Path) -> Run:
        """Load a run, which should have the model and the optimiser of this cell."""
        found = Config.load(folder / run_folder.CONFIG)
        sizes = {"source": found.model.source_vocabulary, "target": found.model.target_vocabulary}
        expected = self.config.with_vocabularies(**sizes)
        if (found.model, found.optimizer) != (expected.model, expected.optimizer):
            raise ValueError(f"{folder} holds another model than that of its cell")
        loaded = load(folder, trust_code=True)  # code that the caller's own configuration names
        # The corpus may have moved, and `train` accepts other test pairs and another search.
        config = dataclasses.replace(loaded.config, decoding=self.config.decoding)
        loaded = dataclasses.replace(loaded, config=config)
        return _reading(loaded, root=self.config.data.root, test=self.config.data.test)

    def _evaluate(self, trained: Run) -> Evaluated:
        """Score a run on its test pairs, which all runs of the cell share."""
        if (settings := trained.config.data) not in self._pairs:
            self._pairs[settings] = TestPairs.read(settings)
        return evaluate_test_pairs(trained, self.settings, self.reporter, self._pairs[settings])[0]


def _reading(trained: Run, **settings: str) -> Run:
    """A run with other settings of its data."""
    own = dataclasses.replace(trained.config.data, **settings)
    return dataclasses.replace(trained, config=dataclasses.replace(trained.config, data=own))


def _ended(folder: Path) -> dict[str, Any] | None:
    """What a run's folder says of the end of its training; None where it has not ended."""
    try:
        ended = parse_json((folder / ENDED).read_text(encoding="utf-8"))
        group, updates = ended.get("group") or [], ended.get("updates", 1)
        return {"diverged": ended["diverged"], "group": [*map(int, group)], "updates": int(updates)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def group_of(folder: Path, seed: int) -> tuple[int, ...]:
    """The seeds that trained together with this one, in one vmapped program or alone."""
    ended = _ended(folder)
    return tuple(ended["group"]) if ended and ended["group"] else (seed,)


def was_vmapped(folder: Path) -> bool:
    """Whether the run was one of a vmapped program, if only of one model."""
    return bool((_ended(folder) or {}).get("group"))
