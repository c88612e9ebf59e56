"""What each named value of an option means, in a few words, for people who have to choose.

The values themselves live in tables of `model`, `data`, `training` and `decoding`.
Those import JAX, which takes a second; this file imports nothing, so that help is fast. A test
compares the names of both.
"""

from collections.abc import Mapping
from types import MappingProxyType

COMPUTE_DTYPES = {
    "float32": "factors as they are",
    "bfloat16": "factors rounded to bfloat16, products added up in float32",
}

# SECTION.FIELD or COMMAND.FIELD -> its values -> a few words. A name in capitals stands for any
# value of the user's own.
CHOICES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "model.order": {
            "paper": "look at the source, update the state, generate a word",
            "groundhog": "look, generate, update: the authors' own program",
            "luong": "update, look, generate (arXiv 1508.04025)",
        },
        "model.attention": {
            "additive": "v tanh(W s + U h), the paper's",
            "additive_relu": "v max(0, W s + U h)",
            "dot": "s h, where h is the sum of both directions",
            "scaled_dot": "s h divided by the root of hidden_size",
            "general": "s W h (arXiv 1508.04025)",
            "none": "no attention: every step sees the last annotation (RNNencdec)",
            "MODULE:NAME": "a Score of your own, such as my_scores:cosine",
        },
        "model.cell": {
            "gru": "gated recurrent unit, the paper's",
            "tanh": "plain recurrent unit without gates",
        },
        "model.encoder_directions": {
            "both": "a forward and a backward network",
            "forward": "a forward network alone",
        },
        "model.initial_state": {
            "backward": "the backward network's last state, at the first word",
            "forward": "the forward network's last state, at the last word",
            "zero": "nothing: s_0 does not depend on the source",
        },
        "model.readout": {
            "maxout": "the larger unit of each pair, the paper's",
            "tanh": "tanh of each unit",
            "linear": "each unit as it is",
        },
        "model.init": {
            "paper": "normal with deviation 0.01; recurrent weights are orthogonal",
            "scaled": "Glorot normal; alignment weights have deviation 0.001",
            "glorot": "Glorot normal, for alignment weights as well: for small models",
        },
        "model.gradients": {
            "deferred": "one product for all steps: faster, reverse mode only",
            "autodiff": "JAX's own, step by step",
        },
        "model.compute_dtype": COMPUTE_DTYPES,
        "data.train": {
            "text:FILE,FILE": "two files with a sentence a line, also .gz and .xz",
            "tsv:FILE": "a table: source and target are columns 1 and 2",
            "jsonl:FILE": "JSON objects with a field for each language",
            "tfds:NAME": "a dataset of TensorFlow Datasets",
            "builtin:NAME": "sentences or lists that this program writes",
        },
        "data.unicode": {
            "none": "text as it is",
            "NFC": "characters with their accents in one",
            "NFKC": "the same, and variants of a character become one",
        },
        "data.tokenizer": {
            "moses": "the rules of the Moses tokeniser for the language",
            "none": "tokens are what stands between spaces",
        },
        "data.vocabulary": {
            "words": "the most frequent tokens; all others are UNK",
            "characters": "the most frequent characters, for scripts without spaces too",
            "sentencepiece": "pieces of words, learned from the training text",
        },
        "data.subwords": {
            "bpe": "byte-pair encoding (arXiv 1508.07909)",
            "unigram": "the likeliest pieces by a unigram model (arXiv 1804.10959)",
        },
        "data.plan": {
            "pools": "pool_batches batches are sorted by length together, the paper's",
            "buckets": "pairs of similar lengths from all text: less padding",
        },
        "optimizer.name": {
            "adadelta": "the paper's, with rho and epsilon",
            "adam": "with beta1, beta2 and epsilon",
            "MODULE:NAME": "a function of your own, such as my_rules:lion",
        },
        "optimizer.schedule": {
            "constant": "the learning rate stays",
            "cosine": "it falls to 0 along a cosine, at the last step",
            "inverse_sqrt": "it falls as 1 / sqrt(step)",
            "linear": "it falls to 0 on a line, at the last step",
        },
        "optimizer.loss_normalization": {
            "sum": "nothing: the sum over the batch, the paper's",
            "sentence": "the number of sentences",
            "token": "the number of target tokens",
        },
        "training.dev_metric": {
            "bleu": "BLEU of greedy translations",
            "accuracy": "share of words that are predicted right, given those before",
            "exact": "share of translations that equal the reference",
            "loss": "loss per word, the lower the better",
        },
        "training.parallel": {
            "jit": "a program for all devices, also of several hosts",
            "pmap": "the same program on each device of one process",
        },
        "training.shard": {
            "none": "nothing: each device holds everything",
            "optimizer": "the optimiser's state and the moving average",
            "vocabulary": "also the embeddings and the output matrix",
        },
        "decoding.method": {
            "beam": "beam search; with beam_size 1, greedy search",
            "sample": "words drawn by their probabilities",
        },
        "decoding.length_normalization": {
            "none": "the sum of log-probabilities, the paper's",
            "average": "that sum divided by the length",
            "wu": "that sum divided by ((5 + length) / 6)^alpha (arXiv 1609.08144)",
        },
        "decoding.compute_dtype": {"model": "as model.compute_dtype", **COMPUTE_DTYPES},
        "translate.format": {
            "text": "a line a translation",
            "jsonl": "an object a translation: text, score, tokens, weights of attention",
        },
        "translate.preset": {
            "default": "the defaults below, whatever the run says",
            "greedy": "the likeliest word at each step",
            "groundhog": "the search of the paper's program",
        },
        "translate.checkpoint": {
            "best": "those of the best dev scores",
            "newest": "those saved last",
        },
        "translate.weights": {
            "ema": "the moving average of training; used where there is one",
            "params": "the weights themselves",
        },
        "align.format": {
            "pharaoh": "source-target for each link, words counted from 0: 0-0 1-2",
            "jsonl": "an object a pair: words, links and all weights",
        },
        "align.level": {
            "word": "words between white space",
            "token": "tokens of the tokeniser",
            "piece": "the units that the model reads and writes",
            "hansards": "words of the Hansards' data, whose French spells out elisions",
        },
        "align.weights": {
            "attention": "the weights as they are",
            "share": "each divided by all looks at the same source word",
        },
        "align.eos": {"next": "the word with its next largest weight", "none": "nothing"},
        "align.symmetrize": {
            "intersection": "links that both models have",
            "union": "links that either model has",
            "grow-diag": "the intersection, and neighbours of its links",
            "grow-diag-final": "also links of words that have none",
            "grow-diag-final-and": "also links of two words that have none",
        },
        "evaluate.tokenize": {
            "13a": "as sacreBLEU does by default",
            "none": "at spaces alone, for text that is tokenised",
            "intl": "by the classes of Unicode",
            "char": "into characters",
            "zh": "Chinese characters apart, other words as 13a does",
        },
    }
)
