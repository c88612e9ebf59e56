"""The built-in English-French corpus, for a first look.

bahdanau train configs/quickstart.py --workdir runs/quickstart
Two cores of an AMD EPYC: 111 s of training in bfloat16; BLEU 96.7, AER 0.109 on 500 sentences.
The same in float32: 135 s; BLEU 96.5, AER 0.106.
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
        embedding_size=96,
        hidden_size=128,
        alignment_size=64,
        readout_size=96,
        init="glorot",
        compute_dtype="auto",
    ),
    data=DataConfig(
        train="builtin:en-fr/train?pairs=30000",
        dev="builtin:en-fr/dev?pairs=200",
        test="builtin:en-fr/test?pairs=500",
        source_vocabulary_size=4000,
        target_vocabulary_size=4000,
        max_tokens=60,
        batch_size=64,
        plan="buckets",
        shapes=6,
    ),
    optimizer=OptimizerConfig(
        name="adam",
        learning_rate=5e-3,
        schedule="cosine",
        warmup_steps=100,
        loss_normalization="token",
        epsilon=1e-8,
        coverage=0.2,
    ),
    training=TrainingConfig(steps=1300, evaluate_every=650, checkpoint_every=650),
    decoding=DecodingConfig(beam_size=5),
)
