"""RNNsearch-50 of the paper (arXiv 1409.0473), trained longer.

The model is that of its authors' program. The text is WMT14 English to French with a random sample
of 304 M English words, before long pairs are dropped. The authors selected as many (348 M French
ones) by domain. The paper marks this row with a star: 667,000 updates, 252 hours on the GPU of
2014, BLEU 28.45 (no unknown words: 36.15). Its row RNNsearch-50 is the same model after 288,000
updates and 111 hours, BLEU 26.75 (no unknown words: 34.16). To train that one: --training.steps
288000.

The first use downloads (about 7 GB) and prepares the corpora in TFDS_DATA_DIR, by default
~/tensorflow_datasets. For your own files: --data.train text:train.en.gz,train.fr.gz, and so on.

bahdanau train rnnsearch50 --workdir runs/rnnsearch50
This project has not trained it: there is no time or score of ours.
"""

from bahdanau_jax.config import PRESETS, SEARCHES, Config, DataConfig, TrainingConfig

config = Config(
    model=PRESETS["groundhog"],
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
        steps=667_000, log_every=100, evaluate_every=10_000, checkpoint_every=2_000
    ),
    decoding=SEARCHES["groundhog"],
)
