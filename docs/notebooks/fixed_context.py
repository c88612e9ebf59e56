# %% [markdown]
# # Fixed context and attention
#
# Before attention, the encoder gave the decoder one vector, whatever the length of the sentence.
# All that the decoder knew of the source had to fit into it. A tutorial on the paper, number 14
# of a series in NumPy (in Chinese), draws the two kinds of models beside each other, with an
# untrained network and weights that are set by hand. This notebook trains both, and draws the
# weights that they learned.
#
# The task is that of the tutorial: write a list of integers backwards.

# %%
import dataclasses

import numpy as np

import bahdanau_jax as bj

config = bj.Config(
    model=bj.ModelConfig(
        embedding_size=16, hidden_size=32, alignment_size=32, readout_size=16, init="glorot"
    ),
    data=bj.DataConfig(
        train="builtin:reverse/train?pairs=20000&max=7&limit=20",
        dev="",
        test="",
        tokenizer="none",
        batch_size=32,
        shapes=1,
        processes=1,
    ),
    optimizer=bj.OptimizerConfig(
        name="adam",
        learning_rate=8e-3,
        schedule="cosine",
        warmup_steps=40,
        epsilon=1e-8,
        loss_normalization="token",
    ),
    training=bj.TrainingConfig(steps=600, log_every=20, checkpoint_every=600),
    decoding=bj.DecodingConfig(beam_size=1),
)

# %% [markdown]
# ## Two models
#
# The model with attention is RNNsearch: a bidirectional encoder, and the additive score. The model
# without it is RNNencdec: the encoder reads in one direction, the decoder's first state comes
# from its last state, and every output step reads that same state. In this package the second one
# is the score `none`, whose whole weight is on the last position.

# %%
without = dataclasses.replace(
    config.model, attention="none", encoder_directions="forward", initial_state="forward"
)
runs = {
    "fixed context": bj.train(dataclasses.replace(config, model=without), "runs/fixed"),
    "attention": bj.train(config, "runs/attention"),
}

# %% [markdown]
# The model with attention learns the task in a few hundred updates. The other one has learned
# much less by then.

# %% alt="Training loss of both models: with attention it falls to nearly 0, without it stays high"
from bahdanau_jax.training import read_metrics

drawing = bj.figures.Drawing(5.5, 2.8)
axes = drawing.add_subplot(xlabel="updates", ylabel="loss per integer", ylim=(0, 3.2))
for (name, run), style in zip(runs.items(), ("--", "-"), strict=True):
    points = [(line["step"], line["loss"]) for line in read_metrics(run.folder)]
    axes.plot(*zip(*points, strict=True), style, color="black", label=name)
axes.legend(frameon=False)
drawing

# %% [markdown]
# ## The alignment matrix
#
# The list of the tutorial has seven integers.

# %%
numbers = "1 2 3 4 5 6 7"
outputs = {name: run.translate([numbers])[0] for name, run in runs.items()}
for name, best in outputs.items():
    print(f"{name:14} {numbers} -> {best.text}")

# %% [markdown]
# Each row of the matrix is an output step, and each column an input position. Without attention
# every step reads the last position, which is EOS. With attention, step i reads the position that
# it has to write.

# %% alt="Two matrices: all weight on the last column without attention, the diagonal with it"
bj.figures.alignments(outputs)

# %% [markdown]
# ## The steps one by one
#
# The rows of the matrix as bars: each step has its own distribution over the input, which sums
# to 1.

# %% alt="Bars of the attention weights, a panel for each output step"
bj.figures.steps(outputs["attention"])

# %% [markdown]
# ## Where the bottleneck begins
#
# One vector may be enough for short lists. For each length, the share of integers in the right
# place, over 40 lists that were drawn for this test:

# %% alt="Share of right integers by length: about 1 with attention, falling with length without it"
draw = np.random.default_rng(1)
lengths = range(1, 8)
lists = [draw.integers(1, 21, length).astype(str) for length in lengths for _ in range(40)]
shares = {}
for name, run in runs.items():
    right = {length: [] for length in lengths}
    for best, each in zip(run.translate([" ".join(x) for x in lists]), lists, strict=True):
        pairs = zip(best.text.split(), each[::-1], strict=False)
        right[len(each)].append(sum(a == b for a, b in pairs) / len(each))
    shares[name] = [np.mean(right[length]) for length in lengths]
drawing = bj.figures.Drawing(5.5, 2.8)
axes = drawing.add_subplot(xlabel="integers in the list", ylabel="right integers", ylim=(0, 1.05))
for (name, share), style in zip(shares.items(), ("--", "-"), strict=True):
    axes.plot(lengths, share, style, marker="o", color="black", label=name)
axes.legend(frameon=False)
drawing

# %% [markdown]
# With more units and more training, RNNencdec does better. [BLEU by sentence
# length](../results/lengths/report.md) shows longer trainings on sentences.
