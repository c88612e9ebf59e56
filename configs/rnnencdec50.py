"""RNNencdec-50 of the paper (arXiv 1409.0473): the model without attention.

WMT14 English to French with a random sample of 304 M English words, before long pairs are dropped.
The authors selected as many (348 M French ones) by domain. Their model took 600,000 updates, 108
hours on the GPU of 2014, for BLEU 17.82 (no unknown words: 26.71).

The first use downloads (about 7 GB) and prepares the corpora in TFDS_DATA_DIR, by default
~/tensorflow_datasets. For your own files: --data.train text:train.en.gz,train.fr.gz, and so on.

bahdanau train rnnencdec50 --workdir runs/rnnencdec50
This project has not trained it: there is no time or score of ours.
"""

from dataclasses import replace

from bahdanau_jax.config import PRESETS, SEARCHES, Config, DataConfig, TrainingConfig

config = Config(
    model=replace(
        PRESETS["groundhog"],
        attention="none",
        encoder_directions="forward",
        initial_state="forward",
    ),
    data=DataConfig(
        train="tfds:wmt14_paper/fr-en",
        dev="tfds:wmt14_paper/fr-en?split=validation",
        test="tfds:wmt14_paper/fr-en?split=test",
        source_vocabulary_size=30_001,
        target_vocabulary_size=30_001,
        limit_words=304_000_000,
        max_tokens=50,
    ),
    training=TrainingConfig(
        steps=600_000, log_every=100, evaluate_every=10_000, checkpoint_every=2_000
    ),
    decoding=SEARCHES["groundhog"],
)
