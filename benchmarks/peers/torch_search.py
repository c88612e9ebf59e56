"""The search of a trained run by hand in PyTorch, one sentence at a time, written for speed.

The Python of an environment with torch and NumPy runs this file by its path.

    python torch_search.py '{"weights": "weights.npz", "eos": 0}'

The weights are those of the run, so both programs have one model. A sentence's annotations are
multiplied by the matrices that read contexts once. Matrices with the same operand are joined once.
Beam search keeps K live hypotheses, and ends when none of them can become better than the best
finished one.

S source positions, K hypotheses, m embedding, n units, a alignment, l readout, V words.
"""

import json
import math
import sys
import time

import numpy as np
import serving  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]
import torch_device  # pyright: ignore[reportMissingImports]
import torch_step  # pyright: ignore[reportMissingImports]
from torch_device import DEVICE  # pyright: ignore[reportMissingImports]


class Model:
    """The weights of a run, joined for the products of a step."""

    def __init__(self, weights: str, dtype: torch.dtype):
        with np.load(weights) as file:
            p = {name: torch.from_numpy(file[name].copy()).to(DEVICE, dtype) for name in file.files}
        self.p = p
        self.n, self.a = p["decoder/U"].shape[0], p["attention/v_a"].shape[0]
        side = torch_step.side_by_side
        self.of_s = torch.cat([p["attention/W_a"], p["decoder/U_z"], p["decoder/U_r"]], -1)
        self.of_y = torch.cat([side(p, "decoder/W"), p["readout/V_o"]], -1)
        self.of_h = torch.cat([side(p, "decoder/C"), p["readout/C_o"]], -1)
        self.b = torch.cat([side(p, "decoder/b"), p["readout/b_o"]], -1)

    def encode(self, ids: list[int]):
        """Annotations times the matrices of contexts [S, 3n + 2l], keys [S, a], s_0 [1, n]."""
        source = torch.tensor([ids], device=DEVICE)
        mask = torch.ones_like(source, dtype=torch.bool)
        h, keys, s = torch_step.encode(self.p, source, mask, None)
        return h[0] @ self.of_h, keys[0], s

    def step(self, memory, keys, s, words):
        """Log-probabilities [K, V] and the next states [K, n]; `words` is None at the start."""
        p, n = self.p, self.n
        query, recurrent = (s @ self.of_s).split([self.a, 2 * n], 1)
        alpha = torch.softmax(torch.tanh(query[:, None] + keys) @ p["attention/v_a"], -1)
        seen = torch.addmm(self.b, alpha, memory)
        if words is not None:
            seen = seen + p["target_embedding/E"][words] @ self.of_y
        z, r = torch.sigmoid(seen[:, : 2 * n] + recurrent).chunk(2, 1)
        new = torch.tanh(torch.addmm(seen[:, 2 * n : 3 * n], r * s, p["decoder/U"]))
        s = torch.lerp(s, new, z)
        t = torch.addmm(seen[:, 3 * n :], s, p["readout/U_o"]).view(len(s), -1, 2).amax(-1)
        logits = torch.addmm(p["output/b_w"], t, p["output/W_o"])
        return torch.log_softmax(logits.float(), -1), s


def greedy(model: Model, ids: list[int], limit: int, eos: int) -> list[int]:
    memory, keys, s = model.encode(ids)
    words, written = None, []
    for _ in range(limit):
        log_p, s = model.step(memory, keys, s, words)
        words = log_p.argmax(-1)
        if (word := int(words)) == eos:
            break
        written.append(word)
    return written


def beam(model: Model, ids: list[int], limit: int, eos: int, size: int, alpha: float) -> list[int]:
    """The best hypothesis by score / ((5 + length) / 6)^alpha, EOS counted (Wu et al. 2016)."""

    def penalty(length: int) -> float:
        return ((5 + length) / 6) ** alpha

    memory, keys, s = model.encode(ids)
    words, written = None, [[]]
    totals = torch.zeros(1, device=DEVICE)
    best, best_score = written[0], -math.inf
    for length in range(1, limit + 1):
        log_p, s = model.step(memory, keys, s, words)
        vocabulary = log_p.shape[1]
        scores, places = (totals[:, None] + log_p).flatten().topk(min(2 * size, log_p.numel()))
        live = []
        for score, place in zip(scores.tolist(), places.tolist(), strict=True):
            row, word = divmod(place, vocabulary)
            if word == eos:
                if score / penalty(length) > best_score:
                    best, best_score = written[row], score / penalty(length)
            elif len(live) < size:
                live.append((score, row, word))
        if live[0][0] / penalty(limit) <= best_score:  # no live hypothesis can become better
            break
        written = [[*written[row], word] for _, row, word in live]
        totals = torch.tensor([score for score, _, _ in live], device=DEVICE)
        s = s[torch.tensor([row for _, row, _ in live], device=DEVICE)]
        words = torch.tensor([word for _, _, word in live], device=DEVICE)
    return best if best_score > -math.inf else written[0]


def main(given: dict) -> None:
    serving.keep_memory()
    answers = serving.Answers()
    models = {
        name: Model(given["weights"], getattr(torch, name)) for name in ("float32", "bfloat16")
    }
    eos = given["eos"]

    def translate(lines, beam_size: int, alpha: float, ratio: float, threads: int, precision: str):
        """Translate sentences of ids, EOS last, one by one; `each` has their seconds."""
        torch.set_num_threads(threads)
        model, written, each = models[precision], [], []
        cpu = time.process_time()
        with torch.inference_mode():
            for ids in lines:
                start, limit = time.perf_counter(), math.ceil(ratio * len(ids))
                if beam_size == 1:
                    written.append(greedy(model, ids, limit, eos))
                else:
                    written.append(beam(model, ids, limit, eos, beam_size, alpha))
                each.append(time.perf_counter() - start)
        return {"each": each, "cpu_seconds": time.process_time() - cpu, "lines": written}

    answers.give(
        {
            "versions": {"torch": torch.__version__},
            "device": torch_device.NAME,
            "parameters": sum(value.numel() for value in models["float32"].p.values()),
        }
    )
    answers.serve({"translate": translate})


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
