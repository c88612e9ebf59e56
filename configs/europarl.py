"""Europarl, English to French: proceedings of the European Parliament, 600,000 pairs.

BAHDANAU_DATA=... bahdanau train configs/europarl.py --workdir runs/europarl

4,050 updates, 1.4 epochs, on one CPU core with bfloat16 products (AMX): 119 min beside another
training. BLEU 25.8 on the 3,000 dev pairs (greedy, tokenised, lower-cased). The schedule of that
run was one for 5,400 updates until update 1,622. docs/results has the curve (README.md) and the
alignments (alignment.md), also those of the order `paper`.
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
        order="groundhog",
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
        max_tokens=50,
        batch_size=160,
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
        steps=4_050, log_every=50, evaluate_every=1_350, checkpoint_every=675, dev_metric="loss"
    ),
    decoding=DecodingConfig(beam_size=12, length_normalization="wu", alpha=1.0),
)
