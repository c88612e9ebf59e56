"""The same model by hand in PyTorch, written for speed.

The Python of an environment with torch and NumPy runs this file by its path; nothing of this
package is imported here but its neighbours `serving` and `torch_device`.

    python torch_step.py '{"size": {...}, "settings": {...}, "weights": "weights.npz"}'

Input products are outside the loops, keys are computed once, products with the same operand are
merged, and readout and softmax process all steps at once. The weights have the paths of ours as
names, joined by "/"; without a file they are random.

With the setting `encoder` "library", torch.nn.GRU encodes in both directions, by cuDNN on a GPU.
Its reset gate is applied after the product with U, so its numbers are not ours, and the number of
operations is. No library has the decoder, whose input is the attention of its own state.

B sentences, S source and T target positions, m embedding, n units, a alignment, l readout, V words.
"""

import json
import sys
import time

import numpy as np
import serving  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
import torch_device  # pyright: ignore[reportMissingImports]
from torch_device import DEVICE  # pyright: ignore[reportMissingImports]

GATES, SIDES = ("_z", "_r", ""), ("source", "target")


def shapes(m: int, n: int, a: int, l: int, V: int) -> dict[str, tuple[int, ...]]:  # noqa: E741
    """Name of ours -> the shape of each parameter."""
    shapes: dict[str, tuple[int, ...]] = {f"{side}_embedding/E": (V, m) for side in SIDES}

    def cell(name: str, inputs: dict[str, int]) -> None:
        for gate in GATES:
            shapes.update({f"{name}/{i}{gate}": (rows, n) for i, rows in inputs.items()})
            shapes[f"{name}/U{gate}"] = (n, n)
            shapes[f"{name}/b{gate}"] = (n,)

    cell("encoder/forward", {"W": m})
    cell("encoder/backward", {"W": m})
    cell("decoder", {"W": m, "C": 2 * n})
    return shapes | {
        "initial_state/W_s": (n, n),
        "initial_state/b_s": (n,),
        "attention/W_a": (n, a),
        "attention/U_a": (2 * n, a),
        "attention/v_a": (a,),
        "readout/U_o": (n, 2 * l),
        "readout/V_o": (m, 2 * l),
        "readout/C_o": (2 * n, 2 * l),
        "readout/b_o": (2 * l,),
        "output/W_o": (l, V),
        "output/b_w": (V,),
    }


def make_parameters(size: dict[str, int], weights: str) -> dict[str, torch.Tensor]:
    wanted = shapes(size["m"], size["n"], size["a"], size["l"], size["V"])
    if weights:
        with np.load(weights) as file:
            if {name: file[name].shape for name in file.files} != wanted:
                raise SystemExit(f"{weights} does not hold the weights of this size")
            values = {name: torch.from_numpy(file[name].copy()) for name in wanted}
    else:
        torch.manual_seed(1)
        values = {name: 0.01 * torch.randn(shape) for name, shape in wanted.items()}
    return {name: value.to(DEVICE).requires_grad_() for name, value in values.items()}


def side_by_side(p: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    """The matrices or biases of the update gate, the reset gate and the candidate, joined."""
    return torch.cat([p[name + gate] for gate in GATES], -1)


def run_gru(p, name: str, x: torch.Tensor, real: torch.Tensor, steps: range) -> list[torch.Tensor]:
    """The states of one direction. `x` [S, B, 3n] are the products of its inputs with biases."""
    n = p[name + "/U"].shape[0]
    U_zr, U = torch.cat([p[name + "/U_z"], p[name + "/U_r"]], -1), p[name + "/U"]
    h = x.new_zeros(x.shape[1], n)
    states = [h] * len(steps)
    for t in steps:
        z, r = torch.sigmoid(torch.addmm(x[t, :, : 2 * n], h, U_zr)).chunk(2, 1)
        new = torch.tanh(torch.addmm(x[t, :, 2 * n :], r * h, U))
        h = torch.where(real[t], torch.lerp(h, new, z), h)  # h + z (new - h)
        states[t] = h
    return states


def library_encoder(m: int, n: int) -> torch.nn.GRU:
    """The recurrences of both directions; all sentences of a batch are of full length."""
    torch.manual_seed(1)
    return torch.nn.GRU(m, n, bidirectional=True).to(DEVICE)


def encode(p, source: torch.Tensor, mask: torch.Tensor, library: torch.nn.GRU | None):
    """Annotations [B, S, 2n], keys [B, S, a] and s_0 [B, n]."""
    x = F.embedding(source.T, p["source_embedding/E"])
    if library is not None:
        h, last = library(x)  # the last states of both directions: the second is backward
        h = h.transpose(0, 1)
        s_0 = torch.addmm(p["initial_state/b_s"], last[1], p["initial_state/W_s"])
        return h, h @ p["attention/U_a"], torch.tanh(s_0)
    names = ("encoder/forward", "encoder/backward")
    W = torch.cat([side_by_side(p, name + "/W") for name in names], -1)
    b = torch.cat([side_by_side(p, name + "/b") for name in names], -1)
    products = torch.addmm(b, x.flatten(0, 1), W).view(*x.shape[:2], -1)
    forward_x, backward_x = products.chunk(2, -1)
    real, steps = mask.T[..., None], range(x.shape[0])
    forward = run_gru(p, names[0], forward_x, real, steps)
    backward = run_gru(p, names[1], backward_x, real, steps[::-1])
    h = torch.cat([torch.stack(forward, 1), torch.stack(backward, 1)], -1)
    s_0 = torch.addmm(p["initial_state/b_s"], backward[0], p["initial_state/W_s"])
    return h, h @ p["attention/U_a"], torch.tanh(s_0)


def compute_loss(p, source, mask, target, target_mask, library=None) -> torch.Tensor:
    """−Σ log p of the target words, in nats."""
    h, keys, s = encode(p, source, mask, library)
    n, a, T = s.shape[1], keys.shape[2], target.shape[1]
    y = F.embedding(target[:, :-1].T, p["target_embedding/E"])
    y = torch.cat([y.new_zeros(1, *y.shape[1:]), y])  # before the first word there is none
    x = torch.addmm(side_by_side(p, "decoder/b"), y.flatten(0, 1), side_by_side(p, "decoder/W"))
    x = x.view(T, -1, 3 * n)
    of_s = torch.cat([p["attention/W_a"], p["decoder/U_z"], p["decoder/U_r"]], -1)
    of_c, U, v_a, hidden = side_by_side(p, "decoder/C"), p["decoder/U"], p["attention/v_a"], ~mask
    states, contexts = [], []
    for t in range(T):
        query, recurrent = (s @ of_s).split([a, 2 * n], 1)
        e = torch.tanh(query[:, None] + keys) @ v_a
        alpha = torch.softmax(e.masked_fill(hidden, float("-inf")), -1)
        c = torch.bmm(alpha[:, None], h)[:, 0]
        inputs = torch.addmm(x[t], c, of_c)
        z, r = torch.sigmoid(inputs[:, : 2 * n] + recurrent).chunk(2, 1)
        s = torch.lerp(s, torch.tanh(torch.addmm(inputs[:, 2 * n :], r * s, U)), z)
        states.append(s)
        contexts.append(c)
    seen = torch.cat([torch.stack(states), y, torch.stack(contexts)], -1).flatten(0, 1)
    W = torch.cat([p["readout/U_o"], p["readout/V_o"], p["readout/C_o"]])
    t_tilde = torch.addmm(p["readout/b_o"], seen, W)
    readout = t_tilde.view(t_tilde.shape[0], -1, 2).amax(-1)
    logits = torch.addmm(p["output/b_w"], readout, p["output/W_o"])
    words = target.masked_fill(~target_mask, -100).T.flatten()
    return F.cross_entropy(logits, words, ignore_index=-100, reduction="sum")


def make_batch(size: dict[str, int]) -> tuple[torch.Tensor, ...]:
    """A batch of random ids of full length, equal in every peer."""
    rng, arrays = np.random.default_rng(1), []
    for length in (size["S"], size["T"]):
        ids = torch.from_numpy(rng.integers(2, size["V"], (size["B"], length))).to(DEVICE)
        arrays += [ids, torch.ones_like(ids, dtype=torch.bool)]
    return tuple(arrays)


def main(given: dict) -> None:
    answers, settings, before = serving.Answers(), given["settings"], serving.resident()
    rounding, size = torch_device.prepare(settings), given["size"]
    p, batch = make_parameters(size, given["weights"]), make_batch(size)
    library = None
    if settings.get("encoder") == "library":
        library = library_encoder(size["m"], size["n"])
        p = {name: value for name, value in p.items() if not name.startswith("encoder/")}
    weights = [*p.values(), *(library.parameters() if library is not None else ())]
    optimizer = torch.optim.Adadelta(
        weights, lr=1.0, rho=0.95, eps=1e-6, foreach=settings["foreach"]
    )
    mode = settings.get("mode", "default")
    if settings["compile"]:
        torch._dynamo.config.automatic_dynamic_shapes = False  # a program of its own for each size
    loss_of = torch.compile(compute_loss, mode=mode) if settings["compile"] else compute_loss
    update = torch.compile(optimizer.step) if settings["compile_update"] else optimizer.step

    def launch(batch, rounding) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with rounding:
            loss = loss_of(p, *batch, library=library)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0, foreach=settings["foreach"])
        update()
        return loss.detach()

    def step() -> float:
        return launch(batch, rounding).item()

    def count() -> dict[str, int]:
        """The operations of all products in a step, counted by PyTorch."""
        from torch.utils.flop_counter import FlopCounterMode  # pyright: ignore

        with FlopCounterMode(display=False) as counter:
            compute_loss(p, *batch, library=library).backward()
        return {"flops": counter.get_total_flops()}

    def case(batch: int, length: int, precision: str, seconds: float, rounds: int):
        """Time updates of another batch, as `torch_device.timed` does."""
        with torch_device.products(precision) as rounding:
            given = make_batch({**size, "B": batch, "S": length, "T": length})
            return torch_device.timed(lambda: launch(given, rounding), seconds, rounds)

    start = time.perf_counter()
    first = step() if given.get("first_step", True) else None
    answers.give(
        {
            "versions": {"torch": torch.__version__},
            "device": torch_device.NAME,
            "parameters": sum(value.numel() for value in weights),
            "first_step_seconds": time.perf_counter() - start,
            "first_loss": first,
        }
    )
    stepping = serving.Stepping(step, torch_device.PEAK)
    memory = lambda: stepping.memory(before)  # noqa: E731
    answers.serve(
        {
            "step": stepping.step,
            "memory": memory,
            "matrix": torch_device.matrix,
            "count": count,
            "case": case,
        }
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
