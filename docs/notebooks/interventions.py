# %% [markdown]
# # Interventions on attention
#
# The attention weights α of a trained model show where each output word looks. Whether the model
# depends on what it looks at is another question. This notebook answers it by changes: it forces,
# masks, hardens and replaces α, and compares the translations. At the end it puts gradients beside
# α, which ask the same question without a change.
#
# The task is to write a list of integers backwards, because the right position of each step is
# known there. The first step has to read the last integer, and so on back to the first one.

# %%
import jax
import numpy as np

import bahdanau_jax as bj
from bahdanau_jax.experiments import attribution
from bahdanau_jax.experiments import interventions as change

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
    training=bj.TrainingConfig(steps=600, log_every=100, checkpoint_every=600),
    decoding=bj.DecodingConfig(beam_size=1),
)
run = bj.train(config, "runs/reverse")

# %% [markdown]
# ## The model without a change

# %% alt="Alignment matrix of a reversed list: the dark cells form the other diagonal"
lines = ["3 14 7 19 5 11"]
best = run.translate(lines)
print(lines[0], "->", best[0].text)
bj.figures.alignment(best[0])

# %% [markdown]
# ## Force
#
# `force` gives the whole weight of a step to one position, and -1 leaves a step as it is.
# `bj.experiments.translate` is `run.translate` under a change. An intervention has a row for each
# line, so one call can try many changes of one list. Here each row forces one step to one position.

# %%
words = lines[0].split()
tries = [(step, position) for position in range(len(words)) for step in range(len(words))]
rows = np.full((len(tries), len(words)), -1)
for row, (step, position) in zip(rows, tries, strict=True):
    row[step] = position
forced = bj.experiments.translate(run, lines * len(tries), change.force(rows))

example = tries.index((2, 0))
print("no change:                   ", best[0].text)
print("step 2 looks at position 0:  ", forced[example].text)

# %% [markdown]
# If the model depends on α, a forced step writes the word at the forced position. The table has
# the word that each forced step wrote: steps across, and positions down.

# %%
written = [each.tokens[step] for each, (step, _) in zip(forced, tries, strict=True)]
print("step    ", *[f"{step:>5}" for step in range(len(words))])
for position, word in enumerate(words):
    row = written[position * len(words) : (position + 1) * len(words)]
    print(f"at {word:>5}", *[f"{each:>5}" for each in row])
hits = sum(word == words[position] for word, (_, position) in zip(written, tries, strict=True))
print(f"{hits} of {len(tries)} forced steps write the word of their position")

# %% [markdown]
# One forced step differs. At the last step, the last position makes the model end its output.

# %% [markdown]
# ## Mask
#
# `mask` removes source words from the attention of all steps and divides the rest by its sum. The
# masked 19 is missing in the output. Its step looks at the neighbours, and writes the 7 beside it.
# The neighbours' annotations have read the 19 too, but the model does not write it from them.

# %% alt="Two alignment matrices: without a change, and with the word 19 masked in all steps"
words_masked = np.array([[word == "19" for word in words]])
masked = bj.experiments.translate(run, lines, change.mask(words_masked))[0]
print("masked 19: ", masked.text)
bj.figures.alignments({"no change": best[0], "19 masked": masked})

# %% [markdown]
# ## Harden
#
# `harden` gives the whole weight to the position with the largest weight. The integers stay the
# same, so their steps do not need the smaller weights. But the model does not end: the last
# step spreads its weight over the whole list, and with all of it on one position it writes that
# integer again.

# %%
hard = bj.experiments.translate(run, lines, change.harden())[0]
print("no change:", best[0].text, f"   log p = {best[0].score:.3f}")
print("hardened: ", hard.text, f"   log p = {hard.score:.3f}")

# %% [markdown]
# ## Replace
#
# `replace` uses given weights. Those of the opposite diagonal make the model copy the list, which
# it was never trained to do. It ends before the last integer, as the forced step above did. So the
# state of the decoder decides where the list ends, together with α.

# %% alt="Alignment matrix with replaced weights: the dark cells form the main diagonal"
diagonal = np.eye(len(words) + 1, dtype=np.float32)[None]
copied = bj.experiments.translate(run, lines, change.replace(diagonal))[0]
print("replaced:", copied.text)
bj.figures.alignment(copied)

# %% [markdown]
# ## A change of your own
#
# Any function (α, i) → α can be an intervention. `Partial` holds the function and its arrays, which
# have a row for each line. This one flattens the weights, α^t / Σ α^t, with another power
# t for each line. The output stays right for the second line, and not for the third and fourth.


# %%
def flatten(power, alpha, i):
    flat = alpha**power
    return flat / flat.sum()


powers = np.array([1.0, 0.5, 0.25, 0.125], np.float32)
change_of_mine = jax.tree_util.Partial(flatten, powers)
flat = bj.experiments.translate(run, lines * len(powers), change_of_mine)
for power, each in zip(powers, flat, strict=True):
    largest = each.alpha.max(axis=1).mean()
    print(f"power {power:5}: mean of the largest weights {largest:.2f}   {each.text}")

# %% [markdown]
# ## Gradients beside α
#
# A gradient asks how log p(y_i) changes with the embedding of source word j. Gradient times input
# is a first-order estimate of what the word contributes. Integrated gradients follow the line from
# a sentence of unknown words to this one, and each row sums to the change of log p(y_i).

# %%
model, batch = run.config.model, bj.experiments.as_batch(run, lines, best)
gradient = jax.jit(attribution.gradient_times_input, static_argnums=0)
along_line = jax.jit(attribution.integrated_gradients, static_argnums=0)
forced, times_input = gradient(model, run.params, batch)
integrated = along_line(model, run.params, batch)[1]

drawing = bj.figures.Drawing(8, 3.4)
panels = {"α": forced.alpha, "gradient times input": times_input, "integrated": integrated}
for axes, (title, values) in zip(drawing.subplots(1, 3), panels.items(), strict=True):
    values = np.asarray(values[0])
    bound = np.abs(values).max()
    axes.imshow(values, cmap="RdBu_r", vmin=-bound, vmax=bound)
    axes.set_title(title, fontsize=10)
    axes.set_xticks(range(len(words) + 1), best[0].source_tokens, rotation=90)
    axes.set_yticks(range(len(words) + 1), best[0].tokens)
drawing

# %% [markdown]
# Red raises the probability of the output word, and blue lowers it. α has no sign. The next cell
# counts the output words whose largest value is on the source word with the largest α.

# %%
source_of = forced.alpha[0].argmax(axis=1)
for title, values in panels.items():
    same = int((values[0].argmax(axis=1) == source_of).sum())
    print(f"{title:22} {same} of {len(source_of)}")

# %% [markdown]
# On this task, gradients agree with α in most rows, and forced steps confirm both. In translation
# they agree less: see the [study of masked words](../results/masking.md).
