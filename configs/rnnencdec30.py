"""RNNencdec-30 of the paper (arXiv 1409.0473): the model without attention.

WMT14 English to French; the authors' selection of 348 M words is not reproduced. Their model took
846,000 updates, 109 hours on the GPU of 2014, for BLEU 13.93 (no unknown words: 24.19).
"""

from dataclasses import replace

from bahdanau_jax.config import PRESETS, Config, DataConfig, DecodingConfig, TrainingConfig

config = Config(
    model=replace(
        PRESETS["groundhog"],
        attention="none",
        encoder_directions="forward",
        initial_state="forward",
    ),
    data=DataConfig(
        train="text:wmt14/train.en.gz,wmt14/train.fr.gz",
        dev="text:wmt14/newstest2012.en+wmt14/newstest2013.en,"
        "wmt14/newstest2012.fr+wmt14/newstest2013.fr",
        test="text:wmt14/newstest2014.en,wmt14/newstest2014.fr",
        source_vocabulary_size=30_001,
        target_vocabulary_size=30_001,
        max_tokens=30,
    ),
    training=TrainingConfig(
        steps=846_000, log_every=100, evaluate_every=10_000, checkpoint_every=2_000
    ),
    decoding=DecodingConfig(beam_size=12),
)
