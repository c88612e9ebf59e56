"""A search by the model in Python, recorded with all that the explorer shows of it.

It is the beam search of `decoding.search` for one sentence, as plain loops: the page shows the
words that were weighed and rejected, which a compiled search does not keep. Unlike `Run.translate`,
it refuses long lines (LONGEST) and ends long translations (MOST_STEPS).
"""

import dataclasses
import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from bahdanau_jax import model
from bahdanau_jax.batch import EOS, START, UNK, pad
from bahdanau_jax.config import DecodingConfig, ModelConfig
from bahdanau_jax.data import unit_spans
from bahdanau_jax.decoding import COMPUTE_DTYPES, NORMALIZATIONS, Ranking
from bahdanau_jax.trained import Run

# Limits, which are those of a model in the page (browser/engine.js).
LONGEST = 200  # tokens of a sentence, without EOS
MOST_STEPS = 600  # tokens of a translation, whatever max_ratio allows

LIKELIEST = 8  # words of a step that are kept to be shown
PADDING = 8  # sentences are padded to multiples of it, so that few programs are compiled


@dataclass
class Node:
    """A word that the search weighed, and the hypothesis that ends in it."""

    token: int
    log_p: float
    total: float
    parent: Self | None
    rank: int = 0
    state: str = "rejected"  # or "kept", or "ended"
    alpha: np.ndarray = field(default_factory=lambda: np.zeros(0))  # of the step that wrote it
    likeliest: list[tuple[int, float]] = field(default_factory=list)  # words of that step
    place: int = 0  # the hypothesis of the step before that it continues

    def path(self) -> list[Self]:
        """The nodes of the hypothesis, without the root."""
        nodes, node = [], self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


def record(run: Run, line: str) -> dict[str, Any]:
    """Translate a line by beam search, and return all that the page shows of it, as JSON values.

    A line of more than LONGEST tokens has no translation, but a `refusal`, which the page shows. A
    translation ends after MOST_STEPS tokens.

    >>> record(run, "The man sleeps .")["hypotheses"][0]["text"]
    """
    config, source = run.config.decoding, run.codecs[0]
    ids = source.encode(line)
    if len(ids) == 1:  # a blank line has no translation
        return _untranslated()
    if len(ids) - 1 > LONGEST:
        return _untranslated(
            f"This sentence has {len(ids) - 1:,} tokens, and the page translates at most "
            f"{LONGEST}: shorten it, or translate it with bahdanau translate."
        )
    computed = COMPUTE_DTYPES[config.compute_dtype](run.config.model)
    nodes, tips = _preferred(computed, run.params, config, ids)
    places = {id(node): i for i, node in enumerate(nodes)}
    ranking = Ranking.of(config)

    def step(node: Node) -> dict[str, Any]:
        likeliest = [{"symbol": _symbol(run, t), "token": t, "logP": p} for t, p in node.likeliest]
        return {
            "symbol": _symbol(run, node.token),
            "id": node.token,
            "logP": node.log_p,
            "alpha": np.asarray(node.alpha, np.float64).round(6).tolist(),
            "node": places[id(node)],
            "likeliest": likeliest,
        }

    hypotheses = [
        {
            "text": run.codecs[1].decode([node.token for node in tip.path()]),
            "score": _score(ranking, tip),
            "finished": tip.token == EOS,
            "steps": [step(node) for node in tip.path()],
        }
        for tip in sorted(tips, key=lambda tip: -_score(ranking, tip))
    ]
    written = [line[slice(*span)] for span in unit_spans(source, line)]
    tree = [
        {
            "parent": places.get(id(node.parent), -1),
            "step": len(node.path()) - 1,
            "rank": node.rank,
            "symbol": _symbol(run, node.token),
            "logP": node.log_p,
            "total": node.total,
            "state": node.state,
        }
        for node in nodes
    ]
    units = source.units(line)
    return {"source": units, "written": written, "nodes": tree, "hypotheses": hypotheses}


def _untranslated(refusal: str = "") -> dict[str, Any]:
    return {"source": [], "written": [], "nodes": [], "hypotheses": [], "refusal": refusal}


def _symbol(run: Run, token: int) -> str:
    return run.codecs[1].tokens([token])[0]


def _score(ranking: Ranking, tip: Node) -> float:
    path = tip.path()
    alpha = np.stack([node.alpha for node in path]).astype(np.float32)
    return ranking.score(np.array([node.log_p for node in path], np.float32), alpha)


@partial(jax.jit, static_argnums=0)
def _encode(config: ModelConfig, params: model.Params, ids: Any, mask: Any) -> Any:
    return model.encode(config, params, ids, mask)


@partial(jax.jit, static_argnums=0)
def _step(config: ModelConfig, params: model.Params, memory: Any, tokens: Any, state: Any) -> Any:
    distribution, state, alpha = model.predictor(config, params, memory)(tokens, state)
    return distribution.log_p[0], state, alpha[0]


def _preferred(
    model_config: ModelConfig, params: model.Params, config: DecodingConfig, ids: list[int]
) -> tuple[list[Node], list[Node]]:
    """The search as configured, or the one with UNK where only that one finishes a hypothesis."""
    banned = _search(model_config, params, config, ids)
    if not config.ban_unk or banned[1][0].token == EOS:
        return banned
    free = _search(model_config, params, dataclasses.replace(config, ban_unk=False), ids)
    return free if free[1][0].token == EOS else banned


def _search(
    model_config: ModelConfig, params: model.Params, config: DecodingConfig, ids: list[int]
) -> tuple[list[Node], list[Node]]:
    """All nodes of the tree, step by step, and the last ones of the hypotheses."""
    K, ranking = config.beam_size, Ranking.of(config)
    limit = min(math.ceil(config.max_ratio * len(ids)), MOST_STEPS)
    minimum = min(math.floor(config.min_ratio * len(ids)), limit - 1)
    batch = pad([ids], -(-len(ids) // PADDING) * PADDING)
    memory = _encode(model_config, params, *batch)
    state = jax.tree.map(lambda leaf: jnp.repeat(leaf[:, None], K, 1), model.start(memory))
    live, width = [Node(START, 0.0, 0.0, None)], K
    nodes, finished = [], []
    for time in range(limit):
        tokens = np.array([[node.token for node in live] + [EOS] * (K - len(live))], np.int32)
        log_p, state, alpha = _step(model_config, params, memory, tokens, state)
        log_p, alpha = np.asarray(log_p, np.float32), np.asarray(alpha)[:, : len(ids)]
        candidates = _candidates(config, live, log_p, alpha, early=time < minimum)
        nodes += candidates
        ended = [node for node in candidates[:width] if node.token == EOS]
        going = [node for node in candidates if node.token != EOS]
        width -= len(ended) if config.shrink or K == 1 else 0
        live = going[:width]
        for kind, chosen in (("ended", ended), ("kept", live)):
            for node in chosen:
                node.state = kind
        finished = sorted(finished + ended, key=lambda tip: -_score(ranking, tip))[:K]
        if not live or _is_decided(config, ranking, live, finished, time + 1, minimum, limit):
            break
        places = np.array([node.place for node in live] + [0] * (K - len(live)))
        state = jax.tree.map(lambda leaf, places=places: leaf[:, places], state)
    return nodes, finished or live


def _candidates(
    config: DecodingConfig, live: list[Node], log_p: np.ndarray, alpha: np.ndarray, early: bool
) -> list[Node]:
    """The best 2 K continuations; ties go to the earlier hypothesis, then to the lower word."""
    continuations = []
    for place, node in enumerate(live):
        values = log_p[place].copy()
        best = np.argsort(-values, kind="stable")[:LIKELIEST]
        likeliest = [(int(token), float(values[token])) for token in best]
        if config.ban_unk:
            values[UNK] = -np.inf
        if early:
            values[EOS] = -np.inf
        for token in np.argsort(-values, kind="stable")[: 2 * config.beam_size]:
            if np.isfinite(values[token]):
                value = float(values[token])
                each = Node(int(token), value, node.total + value, node)
                each.alpha, each.likeliest, each.place = alpha[place], likeliest, place
                continuations.append(each)
    continuations.sort(key=lambda each: -each.total)
    chosen = continuations[: 2 * config.beam_size]
    for rank, each in enumerate(chosen):
        each.rank = rank
    return chosen


def _is_decided(
    config: DecodingConfig,
    ranking: Ranking,
    live: list[Node],
    finished: list[Node],
    time: int,
    minimum: int,
    limit: int,
) -> bool:
    """Whether no live hypothesis can still beat the worst finished one."""
    if len(finished) < config.beam_size:
        return False
    total = max(node.total for node in live)
    penalty = NORMALIZATIONS[config.length_normalization].penalty
    lengths = np.array([max(time, minimum) + 1, limit], np.float32)
    attainable = float(np.max(total / np.asarray(penalty(jnp.asarray(lengths), config.alpha))))
    return attainable <= _score(ranking, finished[-1])
