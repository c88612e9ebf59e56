# %% [markdown]
# # A tour
#
# In this notebook you train a small translation model, translate with it, look at its alignment,
# replace its score function by your own, and train ten seeds at once. It needs no download and no
# GPU. The model is too small and trains too briefly to translate well; the quickstart
# configuration (`bahdanau train quickstart`) takes some minutes and translates text of the same
# kind nearly without errors.

# %%
import dataclasses

import bahdanau_jax as bj

# %% [markdown]
# ## Train
#
# A configuration has five sections: model, data, optimizer, training and decoding. The address
# `builtin:en-fr/train` is an English-French corpus that a grammar writes. Here its sentences have
# at most nine words. Dev and test pairs are left out, because this notebook needs no scores.

# %%
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
    training=bj.TrainingConfig(steps=500, checkpoint_every=500, log_every=25),
    decoding=bj.DecodingConfig(beam_size=4),
)
run = bj.train(config, "runs/tour")

# %% [markdown]
# Training wrote a run folder. `metrics.jsonl` has a line for every 25 updates. Its loss is in nats
# for each word.

# %% alt="The training loss over 500 updates: it falls from above 6 to below 1 nat for each word"
from bahdanau_jax.training import read_metrics

lines = read_metrics(run.folder)
loss = [(line["step"], line["loss"]) for line in lines if "loss" in line]
drawing = bj.figures.Drawing(5.5, 2.6)
axes = drawing.add_subplot(xlabel="updates", ylabel="loss per word", ylim=(0, 7))
axes.plot(*zip(*loss, strict=True), color="black")
drawing

# %% [markdown]
# ## Translate
#
# `run.translate` takes lines of text and returns a `Hypothesis` for each of them. It has the text,
# the tokens with their log-probabilities, and the attention weights.

# %%
sentences = [
    "Germany sees them today.",
    "Nine years ago, they loved him.",
    "China will vote in seven days.",
    "The building was famous.",
]
hypotheses = run.translate(sentences)
for sentence, best in zip(sentences, hypotheses, strict=True):
    print(f"{sentence}\n    {best.text}    (score {best.score:.2f})")

# %% [markdown]
# The last one is wrong: rare nouns need more training than these 500 updates. Words outside the
# vocabulary of 1,000 words are written as `<unk>`.
#
# ## The alignment
#
# Each output word is written from a context, which is the mean of the source annotations with the
# attention weights α. The matrix shows α: output words down, source words across, white for 0 and
# black for 1. French puts the pronoun before the verb: "les" looks at "them", and only then "voit"
# looks at "sees" and "them".

# %% alt="Alignment matrix of the first sentence: les looks at them, before voit"
bj.figures.alignment(hypotheses[0])

# %% [markdown]
# In the second sentence "Il y a" looks at "ago", which comes after "nine years" in English. Then
# "l'" looks at "him" before "ont aimé" looks at "loved".

# %% alt="Alignment matrix of the second sentence: Il y a looks at ago, and l' looks at him"
bj.figures.alignment(hypotheses[1])

# %% [markdown]
# ## A score function of your own
#
# The score e_ij says how well source position j fits the next word i. The paper's score is a small
# network. A score of your own is a value of `bj.attention.Score`, which needs four functions. They
# draw the parameters, compute the keys once for each sentence, return the matrix that maps the
# state s to a query, and score a query against all keys. This score is ten times the cosine of the
# angle between W s and h_j.

# %%
import jax.numpy as jnp


def init(key, config):
    shape = config.hidden_size, bj.attention.annotation_size(config)
    return bj.draw(key, {"W": (bj.INITS[config.init].weight, shape)})


def unit(x):
    return x / jnp.sqrt(jnp.sum(x**2, axis=-1, keepdims=True) + 1e-6)


cosine = bj.attention.Score(
    init=init,
    keys=lambda config, params, annotations, mask: unit(annotations),
    query=lambda params: params["W"],
    score=lambda params, query, keys: 10 * jnp.einsum("ba,bsa->bs", unit(query), keys),
)

# %% [markdown]
# A configuration names a score of your own as `module:attribute`. In a notebook the module is
# `__main__`; from a file `my_scores.py` it would be `my_scores:cosine`. The task is smaller than
# translation: to write a list of integers backwards. The score of the alignment is part of the
# result, because here it is known which position is the right one.

# %%
backwards = dataclasses.replace(
    config,
    model=dataclasses.replace(
        config.model,
        attention="__main__:cosine",
        embedding_size=16,
        hidden_size=24,
        readout_size=16,
    ),
    data=bj.DataConfig(
        train="builtin:reverse/train?pairs=6000&max=6&limit=12",
        dev="",
        test="builtin:reverse/test?pairs=100&max=6&limit=12",
        tokenizer="none",
        batch_size=16,
        shapes=1,
        processes=1,
    ),
    training=bj.TrainingConfig(steps=300, log_every=100, checkpoint_every=300),
    decoding=bj.DecodingConfig(beam_size=1),
)
bj.check(backwards)  # the shapes of the score, among other things

# %% [markdown]
# ## Several seeds at once
#
# One training says little, because its result depends on the seed. `bj.experiments.sweep` trains
# every cell of a table with every seed. The seeds of a small model train in groups: `jax.vmap`
# turns the update of one model into one of several, and the groups run in parallel. A group has at
# most two seeds on a CPU. `exact` is the share of test lists that are written without a mistake.
# AER is the alignment error rate, which is 0 where the largest weight of each step is on the right
# position.

# %%
from bahdanau_jax.report import Settings

quick = Settings(resamples=100)  # of the bootstrap intervals, which this notebook does not show
results = bj.experiments.sweep(
    {"cosine": backwards}, "runs/seeds", range(1, 11), vmapped=True, settings=quick
)
for seed, exact in results.values("cosine", "exact").items():
    print(f"seed {seed:2}: exact {exact:.2f}, AER {results.values('cosine', 'AER')[seed]:.2f}")
mean = results.summary("cosine", "exact")
print(f"mean {mean.mean:.2f} (95% interval {mean.low:.2f} to {mean.high:.2f})")

# %% [markdown]
# Each seed has an ordinary run folder. Its weights look at the list from its end to its beginning.
# `trust_code` permits the import of the score that the run names.

# %% alt="Alignment of a reversed list: the dark cells go from the top right to the bottom left"
best = bj.load("runs/seeds/cosine/seed-1", trust_code=True).translate(["3 1 4 11 5 9"])[0]
bj.figures.alignment(best)
