"""Word alignment of a text by one model, or by two of opposite directions, and its scores.

All links are (source, target) in the direction of the forward model.
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
    """One sentence pair, aligned by both models."""

    forward: Aligned
    backward: Aligned | None  # attention of the source's words to the target's

    @property
    def scored(self) -> bool:
        """Whether no model left the pair out."""
        return all(each.score is not None for each in self if each is not None)

    def to_json(self, links: Links) -> dict[str, Any]:
        """A JSON object of the words without EOS, the links, and the weights with EOS.

        EOS is last on both axes of the weights. `entropy` is that of each target word in nats, and
        `coverage` the total attention to each source word. Other weights have their own names.
        """
        pair, words = self.forward, slice(0, -1)
        fields = {
            "source": list(pair.source),
            "target": list(pair.target),
            "links": alignment.format_pharaoh(links),
            "score": pair.score,
            "entropy": alignment.entropy(pair.alpha)[words].round(6).tolist(),
            "coverage": alignment.coverage(pair.alpha[words])[words].round(6).tolist(),
            "alpha": pair.alpha.round(6).tolist(),
        }
        if self.backward is not None:
            fields["reverse_alpha"] = self.backward.alpha.round(6).tolist()
        for prefix, aligned in (("", pair), ("reverse_", self.backward)):
            for name, matrix in aligned.others.items() if aligned else ():
                fields[f"{prefix}{name}"] = matrix.round(6).tolist()
        return fields


def align(
    forward: Run,
    backward: Run | None,
    sources: Sequence[str],
    targets: Sequence[str],
    level: str,
    advance: Callable[[int], object] = ignore,
    weights: str = "attention",
) -> list[Pair]:
    """Align the lines by both models. Raises ValueError where the models count different words.

    `advance` is called with the number of pairs of each batch of the forward model. `weights` is
    read by `aligner.Weights.of`.
    """
    ours = forward.align(sources, targets, level, advance, weights)
    theirs = [None] * len(ours)
    if backward:
        theirs = backward.align(targets, sources, level, weights=weights)
    pairs = [Pair(*pair) for pair in zip(ours, theirs, strict=True)]
    for there, back in pairs:
        if back is not None and (there.source, there.target) != (back.target, back.source):
            raise ValueError(
                f"the runs do not count the same {level}s: {_shown(there.source, there.target)} "
                f"and {_shown(back.target, back.source)}; use the level word"
            )
    return pairs


def _shown(source: Sequence[str], target: Sequence[str]) -> str:
    return f"{' '.join(source)!r} with {' '.join(target)!r}"


def check_opposite(forward: Run, backward: Run) -> None:
    """Raise ValueError for two models that do not translate in opposite directions."""
    ours, theirs = (
        (run.config.data.source_language, run.config.data.target_language)
        for run in (forward, backward)
    )
    if theirs != ours[::-1]:
        raise ValueError(
            f"{forward.folder} translates {ours[0]} to {ours[1]}, and {backward.folder} "
            f"{theirs[0]} to {theirs[1]}; the reverse run has to be of the opposite direction"
        )


def of_tokens(run: Run) -> Run:
    """The run without tokenisers, for text of tokens with single spaces between them."""
    source, target = (
        dataclasses.replace(codec, tokenizer=data.TOKENIZERS["none"](language))
        for codec, language in zip(
            run.codecs,
            (run.config.data.source_language, run.config.data.target_language),
            strict=True,
        )
    )
    return dataclasses.replace(run, codecs=(source, target))


class LinkSettings(NamedTuple):
    """The settings that turn attention into links."""

    weights: str = "attention"  # read by aligner.Weights.of
    threshold: float | None = None  # the least weight of a link; None: link the largest weight
    eos: str = "next"  # a key of `EOS_RULES` in alignment/linking.py


ATTENTION = LinkSettings()


def ways(
    pair: Pair, settings: LinkSettings = ATTENTION, prior: Float[np.ndarray, "V W"] | None = None
) -> dict[str, Links]:
    """All sets of links of the models: `forward`, `backward` and their symmetrisations.

    `prior` multiplies the weights between V target and W source words. A pair that either model
    left out has no links.
    """
    forward = pair.forward.links(*settings, prior)
    if pair.backward is None:
        return {"forward": forward}
    if not pair.scored:
        return dict.fromkeys(("forward", "backward", *SYMMETRIZATIONS), frozenset())
    turned = None if prior is None else prior.T
    backward = alignment.transposed(pair.backward.links(*settings, turned))
    joined = {name: join(forward, backward) for name, join in SYMMETRIZATIONS.items()}
    return {"forward": forward, "backward": backward, **joined}


@dataclass
class Summary:
    """Statistics of all sentences, added one by one. Links are kept only for gold alignments."""

    gold: GoldFile | None = None
    sentences: int = 0
    left_out: list[int] = field(default_factory=list)  # indices of those with words but no score
    target_words: int = 0
    source_words: int = 0
    entropy: float = 0.0  # summed over target words, in nats
    coverage: float = 0.0  # summed over source words, each at most 1
    links: dict[str, list[Links]] = field(default_factory=dict)
    golden: list[Gold] = field(default_factory=list)

    def add(self, pair: Pair, links: Mapping[str, Links]) -> None:
        """Add a sentence with its links by each way, as `ways` returns them.

        The means are those of the forward model. A sentence is left out where either model left it
        out.
        """
        aligned = pair.forward
        size = len(aligned.source), len(aligned.target)
        if aligned.score is not None:
            weights = aligned.alpha[:-1, :-1]
            self.source_words += size[0]
            self.target_words += size[1]
            self.entropy += float(alignment.entropy(aligned.alpha[:-1]).sum())
            self.coverage += float(np.minimum(alignment.coverage(weights), 1).sum())
        if all(size) and not pair.scored:
            self.left_out.append(self.sentences)
        if self.gold is not None:
            self.golden.append(self.gold.links(self.sentences, *size))
            diagonal = alignment.diagonal(*size) if pair.scored else frozenset()
            for name, sentence in {**links, "diagonal": diagonal}.items():
                self.links.setdefault(name, []).append(sentence)
        self.sentences += 1

    def table(self, chosen: str) -> dict[str, Any]:
        """Counts and means; with gold links also the scores of `chosen`, and of each way.

        `without_gold` is the number of sentences without gold links, where every link is wrong.
        Raises ValueError where the gold links have another number of sentences.
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
        by_way = {name: self._scores(links) for name, links in self.links.items()}
        without_gold = sum(not gold.possible for gold in self.golden)
        return means | {"without_gold": without_gold} | by_way[chosen] | {"ways": by_way}

    def _scores(self, links: Sequence[Links]) -> dict[str, float]:
        sure, possible = zip(*self.golden, strict=True)
        aer, precision, recall = alignment.alignment_scores(links, sure, possible)
        return {"AER": aer, "precision": precision, "recall": recall}


def dice(
    run: Run,
    sources: Sequence[str],
    targets: Sequence[str],
    level: str,
    training: Iterable[tuple[list[str], list[str]]],
) -> list[Float[np.ndarray, "V W"]]:
    """Dice coefficients of the words of each pair at `level`, from the tokens of `training`.

    [0 0] for a pair that `run` does not align because a side is too long.
    """
    lines = aligner.segment(run.codecs, sources, targets, level)
    pairs = [
        None if any(map(aligner.is_too_long, run.codecs, pair)) else pair
        for pair in zip(*lines, strict=True)
    ]
    words = [_tokens(run, *(side.text for side in pair)) if pair else ([], []) for pair in pairs]
    counted = alignment.Dice(words, training)
    return [
        alignment.merge_scores(counted.scores(x, y), *map(_members, run.codecs, pair))
        if pair
        else np.zeros((0, 0))
        for (x, y), pair in zip(words, pairs, strict=True)
    ]


def _members(codec: data.Codec, line: Segmented):
    return data.overlaps(line.spans, data.token_spans(codec, line.text))[:-1, :-1]


def tokens(run: Run, address: str) -> Iterator[tuple[list[str], list[str]]]:
    """The token pairs of a corpus of ordinary text in the languages of the run."""
    for pair in data.pairs(address, run.config.data):
        yield _tokens(run, *pair)


def _tokens(run: Run, source: str, target: str) -> tuple[list[str], list[str]]:
    return run.codecs[0].tokenize(source).split(), run.codecs[1].tokenize(target).split()
