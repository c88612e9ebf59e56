"""The paper's corpora as a TFDS dataset, `tfds:wmt14_paper/fr-en` (arXiv 1409.0473, section 4.1).

The training set is all English-French text of WMT 2014, without the authors' selection of 348 M of
its 850 M words. Validation is newstest2012 and newstest2013, where TFDS's wmt14_translate/fr-en has
newstest2013 alone; the test set is newstest2014. The import registers the dataset with TFDS.
"""

from pathlib import Path

from tensorflow_datasets.translate import wmt

from bahdanau_jax.data.sources.text_files import aligned

PAPER = wmt.WmtConfig(
    version="1.0.0",
    description="The corpora of Bahdanau, Cho and Bengio (arXiv 1409.0473), without selection.",
    url="http://www.statmt.org/wmt14/translation-task.html",
    citation="https://arxiv.org/abs/1409.0473",
    language_pair=("fr", "en"),
    subsets={
        "train": [
            "europarl_v7",
            "newscommentary_v9",
            "multiun",
            "commoncrawl",
            "gigafren",
        ],
        "validation": ["newstest2012", "newstest2013"],
        "test": ["newstest2014"],
    },
)


class Wmt14Paper(wmt.WmtTranslate):
    """TFDS downloads and extracts; this class reads the text line by line, not whole files."""

    BUILDER_CONFIGS = [PAPER]

    def _generate_examples(self, split_subsets, extraction_map):
        languages = PAPER.language_pair
        for subset in split_subsets:
            names = wmt.DATASET_MAP[subset].get_path(languages[0])
            folders = extraction_map[subset]  # one for all files, or one for each
            if len(folders) == 1:
                folders = folders * len(names)
            paths = [Path(folder, name) for folder, name in zip(folders, names, strict=True)]
            for number, pair in enumerate(aligned(*paths)):
                if all(pair):
                    yield f"{subset}/{number}", dict(zip(languages, pair, strict=True))
