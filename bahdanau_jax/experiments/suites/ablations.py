"""The ablations of a reimplementation of the paper that keeps the primes of a list.

Its author trained ten rounds of 2,000 updates, printed the scores of two models, and left two
further ablations unmeasured (its sections 4.2 and 4.3).
"""

import dataclasses
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bahdanau_jax import figures
from bahdanau_jax.config import Config, OptimizerConfig
from bahdanau_jax.configurations import configuration
from bahdanau_jax.experiments import results
from bahdanau_jax.experiments.statistics import compare_independent, summarize
from bahdanau_jax.experiments.suites.suite import (
    Outcome,
    Request,
    Suite,
    folder,
    reduced,
    with_model,
)
from bahdanau_jax.experiments.sweep_cells import Cells
from bahdanau_jax.report import Picture, Section, Settings, Table

# Cell -> the settings of its model that differ from the first cell's.
CELLS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "attention": {},
        "4.1 no initial state": {"initial_state": "zero"},
        "4.2 readout of s alone": {"readout_inputs": "s"},
        "4.3 state without the word": {"feed_previous": False},
        "4.3 no view of the word": {"feed_previous": False, "readout_inputs": "sc"},
        "gated units": {"cell": "gru"},
    }
)

# The author's ten rounds: PSA, LCSR and GeoMean of each.
PRINTED: Mapping[str, tuple[tuple[float, ...], ...]] = MappingProxyType(
    {
        "attention": (
            (0.8625, 0.6001, 0.6773, 0.8597, 0.7643, 0.7833, 0.5488, 0.8470, 0.6264, 0.7911),
            (0.8661, 0.6758, 0.6973, 0.8657, 0.7787, 0.8193, 0.5688, 0.8541, 0.6553, 0.8214),
            (0.8642, 0.6316, 0.6859, 0.8625, 0.7709, 0.7995, 0.5573, 0.8502, 0.6385, 0.8045),
        ),
        "4.1 no initial state": (
            (0.7750, 0.8074, 0.8259, 0.8709, 0.7609, 0.8724, 0.8619, 0.8559, 0.8741, 0.4754),
            (0.7821, 0.8182, 0.8415, 0.8760, 0.7939, 0.8788, 0.8684, 0.8603, 0.8845, 0.5052),
            (0.7783, 0.8122, 0.8315, 0.8731, 0.7754, 0.8753, 0.8649, 0.8579, 0.8788, 0.4851),
        ),
    }
)
MEASURES = ("PSA-seed", "LCSR-seed", "GeoMean-seed")


def _base() -> Config:
    """The task and sizes of the shipped configuration; a model and a budget like the author's.

    Buckets have less padding than the pools of the shipped configuration. Few shapes, and large
    batches of the search, need fewer programs.
    """
    config = with_model(
        configuration("primes"),
        readout_size=16,
        output_size=32,
        attention="additive_relu",
        cell="mlp",
        initial_state="forward",
        init="glorot",
        compute_dtype="bfloat16",
    )
    optimizer = OptimizerConfig(
        name="adam",
        learning_rate=5e-4,
        beta2=0.999,
        epsilon=1e-8,
        clip_norm=0.0,
        loss_normalization="token",
    )
    return dataclasses.replace(
        config,
        optimizer=optimizer,
        data=dataclasses.replace(config.data, plan="buckets", shapes=3),
        decoding=dataclasses.replace(config.decoding, batch_size=1024),
    )


def cells(request: Request) -> Cells:
    base = reduced(_base(), request, 60, (2000, 50, 100), hidden_size=32, alignment_size=32)
    return {folder(name): with_model(base, **change) for name, change in CELLS.items()}


def sections(outcome: Outcome) -> list[Section]:
    names = [name.removesuffix("-seed") for name in MEASURES]
    rows = []
    for name in CELLS:
        ours = [outcome.results.summary(folder(name), each) for each in MEASURES]
        printed = [summarize(rounds) for rounds in PRINTED.get(name, ())]
        rows.append((name, *(results.summary(each, 3) for each in ours)))
        if printed:
            rows.append((f"{name}, printed", *(results.summary(each, 3) for each in printed)))
    of_zero, of_attention = (PRINTED[name][-1] for name in ("4.1 no initial state", "attention"))
    cut = compare_independent(of_zero, of_attention)
    text = (
        "In the author's definition, a list without a prime counts 0: about one list in ten has "
        "none, so that no model can score above about 0.90. Several rounds have their mean ± "
        "standard deviation (95% interval). The rows named printed are computed from the ten "
        "rounds of the author. Their GeoMean without the initial state minus that of attention "
        f"is {cut.difference:+.3f} ({cut.low:+.3f} to {cut.high:+.3f}), p = {cut.p:.2g}, by "
        "Welch's t-test, since nothing pairs the rounds of two models."
    )
    cells = {name: folder(name) for name in CELLS}
    panels = {
        name: outcome.intervals(each, cells) for name, each in zip(names, MEASURES, strict=True)
    }
    picture = Picture("means", figures.means(panels), outcome.caption("round"))
    return [
        Section("Task and training", _training(outcome)),
        Section("Beside the printed numbers", text, (Table(("cell", *names), rows),), (picture,)),
        Section("What differs from the author's model", DIFFERENCES + _what_differs(outcome)),
    ]


def _what_differs(outcome: Outcome) -> str:
    """What differs in the choice of the checkpoint, and in the precision of the products."""
    config = next(iter(outcome.cells.values()))
    text = ""
    if config.training.steps > 1:
        text += (
            " The author tests after the last update. Each of our rounds is scored with the better "
            "of two checkpoints, after a half of the updates and after all, by the dev lists."
        )
    if (dtype := config.model.compute_dtype) != "float32":
        text += f" Its products are float32, and ours are {dtype}."
    return text


def _training(outcome: Outcome) -> str:
    """The size of the experiment, from its cells."""
    config = next(iter(outcome.cells.values()))
    train, test = (_lists(address) for address in (config.data.train, config.data.test))
    rounds = outcome.results.seeds
    return (
        f"{rounds} {'round' if rounds == '1' else 'rounds'} of each cell from fresh weights; "
        f"{config.training.steps:,} updates of {config.data.batch_size} lists by "
        f"{config.optimizer.name.capitalize()}; {config.model.hidden_size} hidden units. All "
        f"rounds and cells have the same {train} training lists and the same {test} test lists. "
        "The author trained ten rounds of 2,000 updates of 32 lists with 128 hidden units, and "
        "tested on 6,400 lists."
    )


def _lists(address: str) -> str:
    found = re.search(r"pairs=(\d+)", address)
    return f"{int(found[1]):,}" if found else "endless"


DIFFERENCES = (
    "The models are not equal. The first state of the author's decoder is the encoder's last state "
    "itself; ours is tanh(W_s h + b_s) of it. The author's decoder reads the previous output "
    "vector, also in training, where ours reads the embedding of the reference's word. Its "
    "state is a network with one hidden layer of the state, the previous output and the context, "
    "without tanh; ours is tanh(M_x(x) + M_h(s)), as in the encoder. Its score function has biases "
    "and gives weight to padding; ours has no biases and a mask. Its readout is a network with a "
    "ReLU, and ours has a maxout layer. Its weights begin at PyTorch's defaults, and ours at "
    "Glorot's."
)


SUITE = Suite(
    title="Ablations on the primes of a list",
    text=(
        "Lists of 1 to 30 integers; the target is the primes among them, in their order. Cells cut "
        "one path of the model: the decoder's first state (section 4.1 of the source), the "
        "readout's direct views of the previous word and the context (4.2), the update of the "
        "decoder's state by the previous word (4.3), and with it the readout's view of that word. "
        "The last cell has the paper's gated units."
    ),
    source=(
        "zhengyang-2002, Bahdanau Attention (2025), with the code in Code/Seq2seq.ipynb of "
        "https://github.com/zhengyang-2002/Paper_reading-Replicating"
    ),
    cells=cells,
    sections=sections,
    metrics=("PSA", "LCSR", "GeoMean", "PSA-seed", "LCSR-seed", "GeoMean-seed"),
    seeds=10,
    settings=Settings(resamples=200),
)
