"""The base configuration of suites on the built-in English-French corpus.

The shipped quickstart configuration is tuned for a first look. This one has the same corpus and
keeps the settings of the recorded results, so that a change of the former changes no suite.
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
        embedding_size=128, hidden_size=192, alignment_size=128, readout_size=128, init="glorot"
    ),
    data=DataConfig(
        train="builtin:en-fr/train?pairs=60000",
        dev="builtin:en-fr/dev?pairs=200",
        test="builtin:en-fr/test?pairs=500",
        source_vocabulary_size=4000,
        target_vocabulary_size=4000,
        max_tokens=60,
        batch_size=64,
        shapes=4,
    ),
    optimizer=OptimizerConfig(
        name="adam",
        learning_rate=3e-3,
        schedule="cosine",
        warmup_steps=100,
        loss_normalization="token",
        epsilon=1e-8,
    ),
    training=TrainingConfig(steps=1100, evaluate_every=550, checkpoint_every=550),
    decoding=DecodingConfig(beam_size=5),
)
