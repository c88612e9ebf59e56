"""Multi30k, English to French: image captions, 29,000 pairs.

BAHDANAU_DATA=... bahdanau train configs/multi30k.py --workdir runs/multi30k --training.seed 2
Two CPU cores (AMD EPYC) in bfloat16, 18 epochs: 42 min of training.
test_2016_flickr: BLEU 61.3 (lower-cased, tokenised), and 60.4 to 60.8 with three other seeds.
docs/results has other machines and directions.
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
        embedding_size=256,
        hidden_size=384,
        alignment_size=256,
        readout_size=256,
        init="glorot",
        compute_dtype="auto",
        order="conditional",
        word_annotations=True,
        embedding_dropout=0.3,
        annotation_dropout=0.4,
        readout_dropout=0.4,
    ),
    data=DataConfig(
        train="text:multi30k/train.en.gz,multi30k/train.fr.gz",
        dev="text:multi30k/val.en.gz,multi30k/val.fr.gz",
        test="text:multi30k/test_2016_flickr.en.gz,multi30k/test_2016_flickr.fr.gz",
        lowercase=True,
        vocabulary="sentencepiece",
        source_vocabulary_size=6000,
        target_vocabulary_size=6000,
        joint_vocabulary=True,
        max_tokens=60,
        batch_size=256,
        shapes=10,
    ),
    optimizer=OptimizerConfig(
        name="adam",
        learning_rate=2.83e-3,
        schedule="cosine",
        warmup_steps=100,
        beta1=0.8,
        beta2=0.998,
        epsilon=7e-9,
        loss_normalization="token",
        label_smoothing=0.1,
        ema=0.998,
    ),
    training=TrainingConfig(
        steps=18 * 114, log_every=50, evaluate_every=3 * 114, checkpoint_every=3 * 114
    ),
    decoding=DecodingConfig(beam_size=12, length_normalization="wu", alpha=1.0),
)
