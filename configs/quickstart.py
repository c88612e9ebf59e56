"""The built-in English-French corpus, for a first look.

bahdanau train configs/quickstart.py --workdir runs/quickstart
Two cores of an AMD EPYC: 83 s of training in bfloat16; BLEU 98.5, AER 0.089 on 500 sentences.
The same in float32: 88 s; BLEU 97.9, AER 0.081.
The paper's own equations (--model.order paper --model.attention additive): BLEU 97.1, AER 0.114.
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
        order="luong",
        attention="additive_coverage",
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
