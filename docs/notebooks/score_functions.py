# %% [markdown]
# # Score functions
#
# Attention needs a number e_ij for each output step i and source position j. The paper computes it
# with a small network, the additive score. Later work used products. This notebook computes one
# score in three ways, puts the functions beside each other, and trains three of them on a list
# that is to be written backwards.

# %%
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import bahdanau_jax as bj

# %% [markdown]
# ## One score, three ways to write it
#
# The additive score is e_j = vᵀ tanh(W s + U h_j). A loop over the positions is closest to the
# formula. Adding W s to all U h_j at once is the way of array programs. `jax.vmap` turns the
# function of one position into that of all. The results are the same numbers.

# %%
draw = np.random.default_rng(0)
S, H, C, A = 7, 16, 32, 16  # positions, units of the state, of an annotation, of the score
s, h = draw.normal(size=H), draw.normal(size=(S, C))
W, U, v = draw.normal(size=(H, A)) / 4, draw.normal(size=(C, A)) / 4, draw.normal(size=A)


def score(h_j):
    return jnp.tanh(s @ W + h_j @ U) @ v


loop = np.array([score(h_j) for h_j in h])
at_once = np.tanh(s @ W + h @ U) @ v
mapped = jax.vmap(score)(h)
package = bj.attention.additive_score(jnp.tanh, {"v_a": v}, (s @ W)[None], (h @ U)[None])[0]
for name, e in {"loop": loop, "at once": at_once, "vmap": mapped, "package": package}.items():
    print(f"{name:8}", np.round(np.asarray(e), 3))

# %% [markdown]
# ## The functions of this package
#
# | name | e_ij | parameters |
# |---|---|---|
# | `additive` | v_aᵀ tanh(W_a s + U_a h_j) | W_a, U_a, v_a |
# | `additive_relu` | v_aᵀ max(0, W_a s + U_a h_j) | W_a, U_a, v_a |
# | `additive_coverage` | v_aᵀ tanh(W_a s + U_a h_j + V_c Σ_{k<i} α_kj) | W_a, U_a, V_c, v_a |
# | `dot` | sᵀ (→h_j + ←h_j) | none |
# | `scaled_dot` | sᵀ (→h_j + ←h_j) / √H | none |
# | `general` | sᵀ W h_j | W |
# | `local_m` | `general` in a window around position i | W |
# | `local_p` | `general` in a window around a predicted position | W, W_p, v_p |
# | `none` | 0 at the last position, no weight elsewhere | none |
#
# A product of s and h_j needs vectors of the same length. An annotation has the states of two
# directions, so it is twice as long as s. The two dot products add the directions; `general` maps
# them with a matrix. Tutorials often leave this out.

# %%
print("known scores:", *bj.attention.SCORES)

# %% [markdown]
# The scale matters for the weights. With longer vectors, products grow like √H, and the softmax
# of large numbers is nearly all on one position before anything is learned. The mean of the
# largest weight over 200 random states and eight positions:

# %% alt="Mean of the largest weight by the number of units: only that of dot grows"
sizes = [4, 8, 16, 32, 64, 128, 256]
largest = {"dot": [], "scaled_dot": []}
for size in sizes:
    state, keys = draw.normal(size=(200, size)), draw.normal(size=(200, 8, size))
    for name in largest:
        e = bj.attention.SCORES[name].score({}, jnp.asarray(state), jnp.asarray(keys))
        alpha = bj.attention.masked_softmax(e, jnp.ones(e.shape, bool))
        largest[name].append(float(alpha.max(axis=1).mean()))
drawing = bj.figures.Drawing(5, 2.6)
axes = drawing.add_subplot(xlabel="units H", ylabel="largest weight", ylim=(0, 1), xscale="log")
for (name, values), style in zip(largest.items(), ("--", "-"), strict=True):
    axes.plot(sizes, values, style, marker="o", color="black", label=name)
axes.set_xticks(sizes, [str(size) for size in sizes], minor=False)
axes.minorticks_off()
axes.legend(frameon=False)
drawing

# %% [markdown]
# ## Training with three of them
#
# The setting `model.attention` names the score. Everything else is equal.

# %%
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
runs = {}
for name in ("additive", "dot", "scaled_dot"):
    model = dataclasses.replace(config.model, attention=name)
    runs[name] = bj.train(dataclasses.replace(config, model=model), f"runs/{name}")

# %% [markdown]
# ## What they learned

# %% alt="Training loss by updates for the three scores"
from bahdanau_jax.training import read_metrics

drawing = bj.figures.Drawing(5.5, 2.8)
axes = drawing.add_subplot(xlabel="updates", ylabel="loss per integer", ylim=(0, 3.2))
for (name, run), style in zip(runs.items(), ("-", "--", ":"), strict=True):
    points = [(line["step"], line["loss"]) for line in read_metrics(run.folder)]
    axes.plot(*zip(*points, strict=True), style, color="black", label=name)
axes.legend(frameon=False)
drawing

# %% alt="Alignment matrices of the three scores on a list of seven integers"
numbers = "1 2 3 4 5 6 7"
outputs = {name: run.translate([numbers])[0] for name, run in runs.items()}
for name, best in outputs.items():
    print(f"{name:11} {numbers} -> {best.text}")
bj.figures.alignments(outputs)

# %% [markdown]
# All three learn the task. The weights of `dot` are the sharpest. Those of `scaled_dot` are spread
# over neighbours, which fits the figure of the scale. One seed of one small task does not rank
# score functions. `bahdanau reproduce scores` compares all of them on three corpora, with several
# seeds and with their speed and memory.
#
# ## Before or after the update
#
# The paper's decoder attends with s_{i-1}, before it updates its state; Luong et al. attend with
# s_i, after the update. That is another choice than the score, and another setting: `model.order`
# is `paper`, `luong`, `groundhog` or `conditional`.

# %%
for order in ("paper", "luong"):
    changed = dataclasses.replace(config.model, order=order, attention="general")
    print(changed.order, changed.attention)
