"""Europarl, English to French: proceedings of the European Parliament, 600,000 pairs.

BAHDANAU_DATA=... bahdanau train configs/europarl.py --workdir runs/europarl

6,400 updates, 1.5 epochs, on two CPU cores (AMD EPYC) in bfloat16: 128 min of training. BLEU on the
3,000 dev pairs: 28.6 by greedy search, 30.5 with this beam (tokenised, lower-cased). The schedule
of that run was one for 7,000 updates until update 650, and for 5,600 until update 1,910. Resumed to
20,000 updates, 404 min in all, it has 29.8 and 31.59.
docs/results has the curve (README.md), and other orders with their alignments (alignment.md).
"""

from bahdanau_jax.config import (
    Config,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    OptimizerConfig,
    TrainingConfig,
)


def side(language: str) -> str:
    """The training files of a side, joined."""
    return "+".join(f"europarl-fr-en/train-{shard:02}.{language}.xz" for shard in range(6))


config = Config(
    model=ModelConfig(
        embedding_size=256,
        hidden_size=384,
        alignment_size=256,
        readout_size=256,
        init="glorot",
        compute_dtype="auto",
        order="conditional",
        word_annotations=True,
        readout_dropout=0.1,
        tied_embeddings=True,
    ),
    data=DataConfig(
        train=f"text:{side('en')},{side('fr')}",
        dev="text:europarl-fr-en/dev.en.xz,europarl-fr-en/dev.fr.xz",
        test="",
        lowercase=True,
        vocabulary="sentencepiece",
        source_vocabulary_size=8000,
        target_vocabulary_size=8000,
        joint_vocabulary=True,
        max_tokens=64,
        batch_size=128,
        plan="buckets",
        shapes=12,
    ),
    optimizer=OptimizerConfig(
        name="adam",
        learning_rate=3e-3,
        schedule="cosine",
        warmup_steps=200,
        epsilon=1e-8,
        loss_normalization="token",
        label_smoothing=0.1,
        ema=0.999,
        coverage=0.1,
    ),
    training=TrainingConfig(
        steps=6_400, log_every=50, evaluate_every=800, checkpoint_every=400, dev_metric="loss"
    ),
    decoding=DecodingConfig(beam_size=12, length_normalization="wu", alpha=1.0),
)
