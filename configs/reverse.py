"""Reverse a list of integers: the attention weights form the other diagonal.

bahdanau train configs/reverse.py --workdir runs/reverse
Two cores of an Intel Xeon, 33 s of training: exact 1.000, AER 0.000 on 2,000 unseen lists.
"""

from bahdanau_jax.config import (
    Config,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    OptimizerConfig,
    TrainingConfig,
)

config = Config(
    model=ModelConfig(
        embedding_size=32, hidden_size=64, alignment_size=64, readout_size=32, init="glorot"
    ),
    data=DataConfig(
        train="builtin:reverse/train?pairs=64000",
        dev="builtin:reverse/dev?pairs=500",
        test="builtin:reverse/test?pairs=2000",
        tokenizer="none",
        batch_size=32,
        shapes=2,
    ),
    optimizer=OptimizerConfig(
        name="adam",
        learning_rate=2e-3,
        schedule="cosine",
        warmup_steps=100,
        epsilon=1e-8,
        loss_normalization="token",
    ),
    training=TrainingConfig(
        steps=2000, log_every=100, evaluate_every=500, checkpoint_every=500, dev_metric="exact"
    ),
    decoding=DecodingConfig(beam_size=1),
)
