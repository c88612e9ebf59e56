# %% [markdown]
# # The paper in code
#
# This notebook takes the equations of appendix A of the paper
# ([arXiv 1409.0473](https://arxiv.org/abs/1409.0473)) one after the other. For each it names the
# function of this package that computes it, computes it again with plain NumPy, and compares the
# numbers on one sentence. Vectors are rows here, so `x @ W` stands for the paper's W x.
#
# The model is small and trained for 500 updates, so that its weights mean something. Every
# equation holds for any weights.

# %%
import jax
import numpy as np

import bahdanau_jax as bj

config = bj.Config(
    model=bj.ModelConfig(
        embedding_size=48, hidden_size=64, alignment_size=48, readout_size=48, init="glorot"
    ),
    data=bj.DataConfig(
        train="builtin:en-fr/train?pairs=12000&max=9",
        dev="",
        test="",
        source_vocabulary_size=1000,
        target_vocabulary_size=1000,
        batch_size=48,
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
    training=bj.TrainingConfig(steps=500, log_every=25, checkpoint_every=500),
    decoding=bj.DecodingConfig(beam_size=4),
)
run = bj.train(config, "runs/paper")

# %% [markdown]
# ## The sentence
#
# The model translates a sentence, and `as_batch` gives its ids and those of the translation. Both
# end with EOS, whose id is 0. `hidden_states` runs the package's decoder over this translation and
# returns all states, contexts and attention weights. They are what NumPy has to reproduce.

# %%
sentence = "Germany sees them today."
best = run.translate([sentence])[0]
batch = bj.experiments.as_batch(run, [sentence], [best])
x, y = batch.source[0], batch.target[0]
print("x:", *[f"{word}={i}" for word, i in zip(best.source_tokens, x, strict=True)])
print("y:", *[f"{word}={i}" for word, i in zip(best.tokens, y, strict=True)])
states = jax.tree.map(np.asarray, bj.experiments.hidden_states(run.config.model, run.params, batch))

# %% [markdown]
# The parameters are a tree of arrays. Their names are the symbols of the paper.

# %%
params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), run.params)
for part, arrays in params.items():
    print(f"{part}: {', '.join(arrays)}")
for name, array in params["attention"].items():
    print(f"attention's {name} has the shape {array.shape}")

# %% [markdown]
# A dictionary collects the largest difference between NumPy, in float64, and the package, in
# float32.

# %%
differences = {}


def compare(equation, function, ours, package):
    differences[equation, function] = float(np.abs(ours - package).max())
    print(f"largest difference: {differences[equation, function]:.1e}")


# %% [markdown]
# ## A.1.1 The gated hidden unit
#
#     h' = (1 - z) ∘ h + z ∘ h̃
#     h̃  = tanh(W x + U [r ∘ h])
#     z  = σ(W_z x + U_z h)          the update gate
#     r  = σ(W_r x + U_r h)          the reset gate
#
# `model.cells.gru_step` computes it, for encoder and decoder alike. The paper leaves out the biases
# to keep the equations short. The reset gate acts before the product with U, and z is the share of
# the new state: in both, the GRU of many libraries differs.


# %%
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gated(p, h, inputs):
    """The next state from h, and from the inputs as pairs (vector, name of its matrix)."""

    def of_inputs(gate):
        return sum(v @ p[f"{name}{gate}"] for v, name in inputs) + p[f"b{gate}"]

    z = sigmoid(of_inputs("_z") + h @ p["U_z"])
    r = sigmoid(of_inputs("_r") + h @ p["U_r"])
    candidate = np.tanh(of_inputs("") + (r * h) @ p["U"])
    return (1 - z) * h + z * candidate


# %% [markdown]
# ## A.2.1 The encoder
#
#     →h_j = gated(→h_{j-1}, Ē x_j),   →h_0 = 0
#     ←h_j = gated(←h_{j+1}, Ē x_j),   ←h_{S+1} = 0
#      h_j = [→h_j ; ←h_j]
#
# One unit reads the sentence from left to right and another one from right to left. The annotation
# h_j of word j holds both states, so it knows the words before and after it. `bj.encode` computes
# the annotations.

# %%
embedded = params["source_embedding"]["E"][x]


def read(direction, words):
    h, states = np.zeros(run.config.model.hidden_size), []
    for word in words:
        h = gated(params["encoder"][direction], h, [(word, "W")])
        states.append(h)
    return np.array(states)


forward = read("forward", embedded)
backward = read("backward", embedded[::-1])[::-1]
annotations = np.concatenate([forward, backward], axis=1)
memory = bj.encode(run.config.model, run.params, batch.source, batch.source_mask)
compare("h_j (A.2.1)", "bj.encode", annotations, np.asarray(memory.annotations[0]))

# %% [markdown]
# The figure shows the annotations, a row for each word: the left half was read from left to right,
# and the right half from right to left.

# %% alt="The annotations as a picture: six rows of words and 128 columns of units from -1 to 1"
drawing = bj.figures.Drawing(6.5, 2.2)
axes = drawing.add_subplot(xlabel="unit: forward 0 to 63, backward 64 to 127")
image = axes.imshow(annotations, cmap="RdBu", vmin=-1, vmax=1, aspect="auto", interpolation="none")
axes.set_yticks(range(len(x)), best.source_tokens)
axes.axvline(63.5, color="black", linewidth=1)
drawing.colorbar(image)
drawing

# %% [markdown]
# ## A.2.2 The first state of the decoder
#
#     s_0 = tanh(W_s ←h_1)
#
# The backward state at the first word has read the whole sentence. `bj.encode` computes s_0 too.

# %%
p = params["initial_state"]
s_0 = np.tanh(backward[0] @ p["W_s"] + p["b_s"])
compare("s_0 (A.2.2)", "bj.encode", s_0, np.asarray(memory.initial[0]))

# %% [markdown]
# ## A.1.2 The alignment model
#
#     e_ij = v_aᵀ tanh(W_a s_{i-1} + U_a h_j)
#
# The energy e_ij says how well the annotation h_j fits the next word. U_a h_j does not depend on i
# and is computed once: it is `memory.keys`. `bj.attention.additive_score` adds the rest.

# %%
a = params["attention"]
keys = annotations @ a["U_a"]


def energies(s):
    return np.tanh(s @ a["W_a"] + keys) @ a["v_a"]


package = bj.attention.additive_score(
    jax.numpy.tanh,
    run.params["attention"],
    memory.initial @ run.params["attention"]["W_a"],
    memory.keys,
)
compare("e_ij (A.1.2)", "bj.attention.additive_score", energies(s_0), np.asarray(package[0]))

# %% [markdown]
# ## The weights and the context (A.2.2)
#
#     α_ij = exp(e_ij) / Σ_k exp(e_ik)
#     c_i  = Σ_j α_ij h_j
#
# `bj.attention.masked_softmax` computes the weights, with 0 at padding. `bj.attention.attend`
# computes weights and context together. The first row of energies and weights, word by word:


# %%
def softmax(e):
    e = np.exp(e - e.max())
    return e / e.sum()


alpha_1 = softmax(energies(s_0))
for word, energy, weight in zip(best.source_tokens, energies(s_0), alpha_1, strict=True):
    print(f"{word:10} e = {energy:6.2f}   α = {weight:.3f}")
compare("α_ij (A.2.2)", "bj.attention.masked_softmax", alpha_1, states.alpha[0, 0])
compare("c_i (A.2.2)", "bj.attention.attend", alpha_1 @ annotations, states.contexts[0, 0])

# %% [markdown]
# ## A.2.2 The states of the decoder
#
#     s_i = gated(s_{i-1}; E y_{i-1}, c_i)
#
# The decoder's gated unit has two inputs: the word before, with the matrices W, and the context,
# with the matrices C. Before the first word there is no word, and its embedding is 0. The loop runs
# the whole decoder over the translation. `bj.experiments.hidden_states` is the package's.

# %%
embedding = params["target_embedding"]["E"]
before = [np.zeros(embedding.shape[1]), *embedding[y[:-1]]]
s, rows, contexts, decoder_states = s_0, [], [], []
for word in before:
    alpha = softmax(energies(s))
    c = alpha @ annotations
    s = gated(params["decoder"], s, [(word, "W"), (c, "C")])
    rows.append(alpha)
    contexts.append(c)
    decoder_states.append(s)
alpha, contexts, decoder_states = map(np.array, (rows, contexts, decoder_states))
compare("s_i (A.2.2)", "bj.experiments.hidden_states", decoder_states, states.states[0])
compare("all α_ij", "bj.experiments.hidden_states", alpha, states.alpha[0])

# %% [markdown]
# The matrix of NumPy's weights is Figure 3 of the paper for this sentence.

# %% alt="Alignment matrix of NumPy's weights: output words down, source words across"
import dataclasses

bj.figures.alignment(dataclasses.replace(best, alpha=alpha))

# %% [markdown]
# ## A.2.2 The readout and the output
#
#     t̃_i = U_o s_i + V_o E y_{i-1} + C_o c_i
#     t_i = [max(t̃_{i,2j-1}, t̃_{i,2j})]_j
#     p(y_i | y_1 … y_{i-1}, x) = softmax(W_o t_i)
#
# `model.readout` has these equations: a linear layer, a maximum over pairs, and the softmax over
# the vocabulary. Appendix A writes s_{i-1} in the first line, and the main text s_i in its
# Eq. (4). The setting `model.order` chooses: `paper`, the default, is the main text, and
# `groundhog` the order of the authors' program.

# %%
o, w = params["readout"], params["output"]
t = decoder_states @ o["U_o"] + np.array(before) @ o["V_o"] + contexts @ o["C_o"] + o["b_o"]
t = t.reshape(len(t), -1, 2).max(axis=2)
probabilities = np.array([softmax(row) for row in t @ w["W_o"] + w["b_w"]])
own = np.log(probabilities[np.arange(len(y)), y])
for word, log_p in zip(best.tokens, own, strict=True):
    print(f"{word:12} p = {np.exp(log_p):.3f}   log p = {log_p:.3f}")
compare("p(y_i) (A.2.2)", "run.translate", own, np.array(best.log_probabilities))

# %% [markdown]
# ## The sum
#
#     log p(y | x) = Σ_i log p(y_i | y_1 … y_{i-1}, x)
#
# Training maximises this sum over all pairs, and beam search looks for the translation with the
# largest one. `run.score` computes it for a given translation.

# %%
score = run.score([sentence], [best])[0].score
print(f"NumPy {own.sum():.4f}, run.score {score:.4f}, run.translate {best.score:.4f}")
compare("log p(y | x)", "run.score", own.sum(), score)

# %% [markdown]
# ## All differences
#
# All of them are of the size of float32's rounding.

# %%
for (equation, function), difference in differences.items():
    print(f"{equation:16} {function:32} {difference:.0e}")
assert max(differences.values()) < 1e-4
