"""Word alignment of a text by one model, or by two of opposite directions, and what it is worth.

Links are (source, target) of the forward model's direction, whichever model they come from.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bahdanau_jax import aligner, alignment, data
from bahdanau_jax.aligner import Aligned
from bahdanau_jax.alignment import SYMMETRIZATIONS, Gold, GoldFile, Links
from bahdanau_jax.data import Segmented
from bahdanau_jax.reporting import ignore
from bahdanau_jax.trained import Run


class Pair(NamedTuple):
    """One sentence pair as both models see it."""

    forward: Aligned
    backward: Aligned | None  # the same words, the target's looked at by the source's

    def to_json(self, links: Links) -> dict[str, Any]:
        """Words of both sides, EOS left out; weights with EOS last on both axes; of each target
        word its entropy in nats, of each source word how much it was looked at."""
        one, words = self.forward, slice(0, -1)
        looked = {
            "source": list(one.source),
            "target": list(one.target),
            "links": alignment.format_pharaoh(links),
            "score": one.score,
            "entropy": alignment.entropy(one.alpha)[words].round(6).tolist(),
            "coverage": alignment.coverage(one.alpha[words])[words].round(6).tolist(),
            "alpha": one.alpha.round(6).tolist(),
        }
        back = self.backward
        return looked if back is None else looked | {"reverse_alpha": back.alpha.round(6).tolist()}


def align(
    forward: Run,
    backward: Run | None,
    sources: Sequence[str],
    targets: Sequence[str],
    level: str,
    advance: Callable[[int], object] = ignore,
) -> list[Pair]:
    """Both models on the same lines. Raises ValueError where they count other words.

    `advance` is told of the pairs of each batch of the forward model.
    """
    ours = forward.align(sources, targets, level, advance)
    theirs = backward.align(targets, sources, level) if backward else [None] * len(ours)
    pairs = [Pair(*pair) for pair in zip(ours, theirs, strict=True)]
    for one, other in pairs:
        if other is not None and (one.source, one.target) != (other.target, other.source):
            raise ValueError(
                f"the runs do not count the same {level}s: {_shown(one.source, one.target)} and "
                f"{_shown(other.target, other.source)}; use the level word"
            )
    return pairs


def _shown(source: Sequence[str], target: Sequence[str]) -> str:
    return f"{' '.join(source)!r} with {' '.join(target)!r}"


def check_opposite(forward: Run, backward: Run) -> None:
    """Raises ValueError for two models of one direction."""
    ours, theirs = (
        (run.config.data.source_language, run.config.data.target_language)
        for run in (forward, backward)
    )
    if ours == theirs and len(set(ours)) > 1:
        raise ValueError(
            f"{forward.folder} and {backward.folder} both translate {ours[0]} to {ours[1]}; the "
            "reverse run has to be of the opposite direction"
        )


def of_tokens(run: Run) -> Run:
    """The run for text in tokens with a space between two, which is not tokenised again."""
    source, target = (
        dataclasses.replace(codec, tokenizer=data.TOKENIZERS["none"](language))
        for codec, language in zip(
            run.codecs,
            (run.config.data.source_language, run.config.data.target_language),
            strict=True,
        )
    )
    return dataclasses.replace(run, codecs=(source, target))


class How(NamedTuple):
    """How links are made of attention."""

    weights: str = "attention"  # a key of evaluation.WEIGHTS
    threshold: float | None = None  # link what weighs as much, not the largest alone
    eos: str = "next"  # a key of evaluation.EOS_LOOKS


ATTENTION = How()


def ways(
    pair: Pair, how: How = ATTENTION, prior: Float[np.ndarray, "V W"] | None = None
) -> dict[str, Links]:
    """Every set of links that the models give: `forward`, `backward` and their symmetrisations.

    `prior` multiplies the weights between V target and W source words.
    """
    forward = pair.forward.links(*how, prior)
    if pair.backward is None:
        return {"forward": forward}
    turned = None if prior is None else prior.T
    backward = alignment.transposed(pair.backward.links(*how, turned))
    joined = {name: join(forward, backward) for name, join in SYMMETRIZATIONS.items()}
    return {"forward": forward, "backward": backward, **joined}


@dataclass
class Summary:
    """What is known of all sentences, gathered one by one; links are kept only beside gold ones."""

    gold: GoldFile | None = None
    sentences: int = 0
    left_out: list[int] = field(default_factory=list)  # sentences, from 0, too long to be asked
    target_words: int = 0
    source_words: int = 0
    entropy: float = 0.0  # summed over target words, nats
    coverage: float = 0.0  # of source words that were looked at, each at most 1
    links: dict[str, list[Links]] = field(default_factory=dict)
    golden: list[Gold] = field(default_factory=list)

    def add(self, aligned: Aligned, links: Mapping[str, Links]) -> None:
        """`links` of one sentence, by name of the way they were made in."""
        size = len(aligned.source), len(aligned.target)
        if aligned.score is not None:
            looks = aligned.alpha[:-1, :-1]
            self.source_words += size[0]
            self.target_words += size[1]
            self.entropy += float(alignment.entropy(aligned.alpha[:-1]).sum())
            self.coverage += float(np.minimum(alignment.coverage(looks), 1).sum())
        elif all(size):
            self.left_out.append(self.sentences)
        if self.gold is not None:
            self.golden.append(self.gold.links(self.sentences, *size))
            for name, found in {**links, "diagonal": alignment.diagonal(*size)}.items():
                self.links.setdefault(name, []).append(found)
        self.sentences += 1

    def table(self, chosen: str) -> dict[str, Any]:
        """Counts and means; beside gold links the scores of `chosen`, and of every way in `ways`.

        `without_gold` are the sentences that have no gold link: whatever is linked there is wrong.
        Raises ValueError where the gold links are of another number of sentences.
        """
        means = {
            "sentences": self.sentences,
            "left_out": len(self.left_out),
            "entropy": self.entropy / self.target_words if self.target_words else None,
            "coverage": self.coverage / self.source_words if self.source_words else None,
        }
        if self.gold is None:
            return means
        self.gold.check(self.sentences)
        if not self.sentences:
            return means
        every = {name: self._scores(found) for name, found in self.links.items()}
        unnamed = sum(not gold.possible for gold in self.golden)
        return means | {"without_gold": unnamed} | every[chosen] | {"ways": every}

    def _scores(self, found: Sequence[Links]) -> dict[str, float]:
        sure, possible = zip(*self.golden, strict=True)
        aer, precision, recall = alignment.alignment_scores(found, sure, possible)
        return {"AER": aer, "precision": precision, "recall": recall}


def dice(
    run: Run,
    sources: Sequence[str],
    targets: Sequence[str],
    level: str,
    training: Iterable[tuple[list[str], list[str]]],
) -> list[Float[np.ndarray, "V W"]]:
    """Dice coefficients of the words of each pair at `level`, from tokens counted in `training`."""
    lines = aligner.segment(run.codecs, sources, targets, level)
    sides = [
        [codec.tokenize(line.text).split() for line in side]
        for codec, side in zip(run.codecs, lines, strict=True)
    ]
    counted = alignment.Dice(zip(*sides, strict=True), training)
    return [
        alignment.merge_scores(counted.scores(x, y), *map(_members, run.codecs, (source, target)))
        for x, y, source, target in zip(*sides, *lines, strict=True)
    ]


def _members(codec: data.Codec, line: Segmented):
    return data.overlaps(line.spans, data.token_spans(codec, line.text))[:-1, :-1]


def tokens(run: Run, address: str) -> Iterator[tuple[list[str], list[str]]]:
    """The tokens of a corpus of ordinary text, whose sides are those of the run."""
    for pair in data.pairs(address, run.config.data):
        yield run.codecs[0].tokenize(pair[0]).split(), run.codecs[1].tokenize(pair[1]).split()
