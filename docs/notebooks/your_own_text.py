# %% [markdown]
# # Your own text
#
# Two files are enough to train a model: line i of one is the translation of line i of the other.
# This notebook goes from the files to a trained model, its translations, its scores, its links
# between words, and its report. Beside each step stands the command that does the same.
#
# ## The files
#
# The files of this notebook contain sentences of the built-in grammar. With files of your own,
# leave this cell out. They may also be `.gz` or `.xz`, and tables and JSON lines work too.

# %%
from pathlib import Path

import bahdanau_jax as bj
from bahdanau_jax import data

for name, pairs in {"train": 12000, "dev": 60, "test": 60}.items():
    generated = data.pairs(f"builtin:en-fr/{name}?pairs={pairs}&max=9", bj.DataConfig())
    for language, lines in zip(("en", "fr"), zip(*generated, strict=True), strict=True):
        Path(f"{name}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
print(*Path("train.en").read_text(encoding="utf-8").splitlines()[:3], sep="\n")
print(*Path("train.fr").read_text(encoding="utf-8").splitlines()[:3], sep="\n")

# %% [markdown]
# ## The configuration
#
# `text:` and the names of two files are the address of a corpus. Dev pairs choose the best
# checkpoint, and test pairs are for the report. `root` is the folder of the files. The vocabularies
# are shortlists of at most 1,000 words. For real text, `vocabulary="sentencepiece"` with 8,000 to
# 32,000 pieces leaves few words unknown, and with `byte_fallback=True` none.

# %%
config = bj.Config(
    model=bj.ModelConfig(
        embedding_size=48, hidden_size=64, alignment_size=48, readout_size=48, init="glorot"
    ),
    data=bj.DataConfig(
        train="text:train.en,train.fr",
        dev="text:dev.en,dev.fr",
        test="text:test.en,test.fr",
        root=".",
        source_language="en",
        target_language="fr",
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
    training=bj.TrainingConfig(steps=500, evaluate_every=500, checkpoint_every=500, log_every=25),
    decoding=bj.DecodingConfig(beam_size=4),
)
config.save(Path("mine.json"))

# %% [markdown]
# ## Prepare
#
#     bahdanau prepare mine.json --workdir runs/mine
#
# Preparation reads, tokenises and encodes the text once, and counts it. Training does this by
# itself where it is missing; the statistics are worth a look before a long training. Pairs above
# `data.max_tokens` would be dropped and counted here.

# %%
statistics = bj.prepare(config, Path("runs/mine"))
for name, value in statistics.items():
    shown = str(value)
    print(f"{name}: {shown if len(shown) < 80 else shown[:76] + ' ...'}")

# %% [markdown]
# ## Train
#
#     bahdanau train mine.json --workdir runs/mine
#
# The same call on the same folder resumes the training from its last checkpoint.

# %%
run = bj.train(config, "runs/mine")

# %% [markdown]
# ## Translate
#
#     bahdanau translate --run runs/mine --input test.en --output translated.fr
#
# 500 updates of a small model are a first look, and many words are wrong.

# %%
sources, references = (
    Path(f"test.{language}").read_text(encoding="utf-8").splitlines() for language in ("en", "fr")
)
hypotheses = run.translate(sources)
for source, best, reference in list(zip(sources, hypotheses, references, strict=True))[:4]:
    print(f"source:    {source}\n  model:     {best.text}\n  reference: {reference}")

# %% [markdown]
# ## Evaluate
#
#     bahdanau evaluate --run runs/mine --source test.en --reference test.fr --output scores
#
# `run.evaluate` translates and scores. BLEU counts common sequences of one to four words, and chrF
# those of characters. `exact` is the share of translations that equal their reference.

# %%
scores = run.evaluate(sources, references)
for name in ("BLEU", "chrF", "exact"):
    print(f"{name} {scores[name]:.1f}")

# %% [markdown]
# ## Align
#
#     bahdanau align --run runs/mine --source test.en --target test.fr --level token
#
# The attention weights also link the words of translations that exist already. The model reads the
# reference word by word, and each word is linked to the source word with the largest weight. After
# such a short training, several words are linked to a neighbour of the right one.

# %%
chosen = next(i for i, source in enumerate(sources) if len(source.split()) == 6)
pair = run.align([sources[chosen]], [references[chosen]], level="token")[0]
for source, target in sorted(pair.links()):
    print(f"{pair.source[source]:14} {pair.target[target]}")

# %% alt="Attention weights between a test sentence and its reference"
bj.figures.alignment(run.score([sources[chosen]], [references[chosen]])[0])

# %% [markdown]
# ## The report
#
# `bahdanau train` writes a report on the test pairs at the end of the training. It is a page,
# `report/index.html`, with scores, examples and pictures, and the same as Markdown and JSON. In
# Python:

# %%
from bahdanau_jax.report import report

report.write(run)
for path in sorted(Path("runs/mine/report").iterdir()):
    print(path.name)

# %%
text = (run.folder / "report" / "report.md").read_text(encoding="utf-8")
print("\n".join(line for line in text.splitlines() if line.startswith("#")))
