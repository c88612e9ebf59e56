"""Short explanations of the named values of options, for the help.

The tables of the values are in `model`, `data`, `training` and `decoding`. These import JAX, which
takes a second; this file imports nothing of that kind, so that the help is fast. A test compares
the names.
"""

from collections.abc import Mapping
from types import MappingProxyType

from bahdanau_jax.reported_scores import SCORES

# The experiments of `bahdanau reproduce`.
SUITES = {
    "paper": "the paper's four models on a corpus of yours: Table 1, Figures 2 and 3",
    "lengths": "BLEU by sentence length with and without attention, built-in corpus",
    "ablations": "models with one path removed, primes of a list, ten seeds",
    "scores": "all score functions on three corpora: quality, AER, speed, memory",
    "notebook": "attention matrices and bar charts of a reversed list",
}

COMPUTE_DTYPES = {
    "float32": "factors in float32",
    "bfloat16": "factors rounded to bfloat16, sums in float32",
}
AUTO = {"auto": "the faster of both on this machine, measured when the run begins"}

CHECKPOINTS = {
    "best": "the checkpoints with the best dev scores",
    "newest": "the newest checkpoints",
    "STEP": "the checkpoint of this update, such as 650",
}

WEIGHTS = {
    "ema": "the moving average; the default if the run has one",
    "params": "the weights without averaging",
}

NORMALIZATIONS = {
    "none": "the sum of log-probabilities, the paper's",
    "average": "that sum divided by the length",
    "wu": "that sum divided by ((5 + length) / 6)^alpha (arXiv 1609.08144)",
}

# SECTION.FIELD or COMMAND.FIELD -> its values -> explanation. A name in capitals stands for the
# user's own values.
CHOICES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "model.order": {
            "paper": "attend to the source, update the state, generate a word",
            "groundhog": "attend, generate, update: the authors' own program",
            "luong": "update, attend, generate (after arXiv 1508.04025)",
            "conditional": "two cells, the second for the context (arXiv 1703.04357)",
        },
        "model.attention": {
            "additive": "v tanh(W s + U h), the paper's",
            "additive_relu": "v max(0, W s + U h)",
            "additive_coverage": "v tanh(W s + U h + V a), a: the sum of the weights of h so far",
            "dot": "s h, where h is the sum of both directions",
            "scaled_dot": "s h divided by the root of hidden_size",
            "general": "s W h (arXiv 1508.04025)",
            "local_m": "general, at most 10 positions from the target word's",
            "local_p": "general, at most 10 positions from a predicted one",
            "none": "none: each step reads the last annotation, as in RNNencdec",
            "MODULE:NAME": "your own Score, such as my_scores:cosine",
        },
        "model.cell": {
            "gru": "gated recurrent unit, the paper's",
            "tanh": "plain recurrent unit without gates",
            "mlp": "tanh of the sum of two networks, one of the input, one of the state",
        },
        "model.encoder_directions": {
            "both": "a forward and a backward network",
            "forward": "a forward network alone",
        },
        "model.initial_state": {
            "backward": "the backward network's last state, at the first word",
            "forward": "the forward network's last state, at the end of the sentence",
            "zero": "zeros: s_0 does not depend on the source",
        },
        "model.readout": {
            "maxout": "the larger unit of each pair, the paper's",
            "tanh": "tanh of each unit",
            "linear": "the identity",
        },
        "model.readout_inputs": {
            "syc": "state, previous word and context, the paper's",
            "sy": "state and previous word",
            "sc": "state and context",
            "s": "the state alone",
            "yc": "previous word and context",
            "c": "the context alone",
        },
        "model.init": {
            "paper": "normal with deviation 0.01, alignment 0.001; orthogonal recurrent weights",
            "scaled": "Glorot normal; alignment weights have deviation 0.001",
            "glorot": "Glorot normal, for alignment weights as well: for small models",
        },
        "model.gradients": {
            "deferred": "one product for all steps: faster, reverse mode only",
            "autodiff": "JAX's autodiff, step by step",
        },
        "model.compute_dtype": COMPUTE_DTYPES | AUTO,
        "data.train": {
            "text:FILE,FILE": "two files with a sentence a line, also .gz and .xz",
            "tsv:FILE": "a table: source and target are columns 1 and 2",
            "jsonl:FILE": "JSON objects with a field for each language",
            "tfds:NAME": "a dataset of TensorFlow Datasets",
            "builtin:NAME": "sentences or lists that this program generates",
        },
        "data.unicode": {
            "none": "unchanged text",
            "NFC": "composed characters: a letter and its accent become one",
            "NFKC": "NFC, and compatible variants of a character become one",
        },
        "data.tokenizer": {
            "moses": "the rules of the Moses tokeniser for the language",
            "none": "tokens are separated by spaces",
        },
        "data.vocabulary": {
            "words": "the most frequent tokens; all others are UNK",
            "characters": "the most frequent characters, for scripts without spaces too",
            "sentencepiece": "pieces of words, learned from the training text",
        },
        "data.subwords": {
            "bpe": "byte-pair encoding (arXiv 1508.07909)",
            "unigram": "the likeliest pieces of a unigram model (arXiv 1804.10959)",
        },
        "data.plan": {
            "pools": "pool_batches batches are sorted by length together, as in the paper",
            "buckets": "pairs of similar lengths from all text: less padding",
        },
        "optimizer.name": {
            "adadelta": "the paper's, with rho and epsilon",
            "adam": "with beta1, beta2 and epsilon",
            "MODULE:NAME": "your own function, such as my_rules:lion",
        },
        "optimizer.schedule": {
            "constant": "it stays constant",
            "cosine": "it falls along a cosine to 0 after the last step",
            "inverse_sqrt": "it falls as 1 / sqrt(step)",
            "linear": "it falls linearly to 0 after the last step",
        },
        "optimizer.loss_normalization": {
            "sum": "1: the sum over the batch, as in the authors' program",
            "sentence": "the number of sentences",
            "token": "the number of target tokens",
        },
        "training.dev_metric": {
            "bleu": "BLEU of greedy translations",
            "accuracy": "share of correctly predicted words (teacher forcing)",
            "exact": "share of translations that equal the reference",
            "loss": "loss per word; lower is better",
        },
        "training.parallel": {
            "jit": "one program for all devices, also of several hosts",
            "pmap": "the same program on each device of one process",
        },
        "training.shard": {
            "none": "no arrays: each device has a copy of everything",
            "optimizer": "the optimiser's state and the moving average",
            "vocabulary": "also the embeddings and the output matrix",
        },
        "decoding.method": {
            "beam": "beam search; with beam_size 1, greedy search",
            "sample": "words sampled from their distribution",
        },
        "decoding.length_normalization": NORMALIZATIONS,
        "decoding.compute_dtype": {"model": "as model.compute_dtype", **COMPUTE_DTYPES},
        "translate.format": {
            "text": "a line for each translation",
            "jsonl": "a JSON object for each translation: text, score, tokens, attention",
        },
        "translate.preset": {
            "default": "the defaults of the program instead of the run's settings",
            "greedy": "the likeliest word at each step",
            "groundhog": "the search of the paper's program",
        },
        "translate.checkpoint": CHECKPOINTS,
        "translate.weights": WEIGHTS,
        "serve.checkpoint": CHECKPOINTS,
        "serve.weights": WEIGHTS,
        "export.format": {
            "folder": "weights, programs, model card and translate.py, for jax and numpy",
            "page": "one HTML file in which the model runs",
        },
        "align.format": {
            "pharaoh": "source-target for each link, words counted from 0: 0-0 1-2",
            "jsonl": "a JSON object for each pair: words, links and all weights",
        },
        "align.level": {
            "word": "words between white space",
            "token": "tokens of the tokeniser",
            "piece": "the units that the model reads and writes",
            "hansards": "words of the Hansards' data, whose French has no elisions",
        },
        "align.weights": {
            "attention": "the attention weights",
            "posterior": "attention, after the target word is known",
            "shift": "attention of the next step (every order but paper)",
            "saliency": "integrated gradients of the target word's log-probability",
            "share": "each weight divided by the sum of its source word's weights",
        },
        "align.eos": {"next": "the word with its next largest weight", "none": "no word"},
        "align.symmetrize": {
            "intersection": "links that both models have",
            "union": "links that either model has",
            "grow-diag": "the intersection, and neighbours of its links",
            "grow-diag-final": "also links of words that have none",
            "grow-diag-final-and": "also links of two words that have none",
        },
        "sweep.vmapped": {
            "auto": "models with at most 2 million parameters, without training.patience",
            "yes": "vmapped where there are two or more seeds, in groups that run in parallel",
            "no": "never: each seed trains in turn, on all devices",
        },
        "sweep.order": {
            "auto": "shared by seeds that train vmapped, and own for those that train in turn",
            "own": "each seed gets the batches of an ordinary run, padded to the largest",
            "shared": "all seeds have the batches of the first seed, which is faster",
        },
        "sweep.metrics": {name: score.meaning for name, score in SCORES.items()},
        "reproduce.compute_dtype": COMPUTE_DTYPES | AUTO,
        "evaluate.length_normalization": NORMALIZATIONS,
        "evaluate.tokenize": {
            "13a": "sacreBLEU's default",
            "none": "only at spaces, for text that is tokenised",
            "intl": "by the classes of Unicode",
            "char": "into characters",
            "zh": "Chinese text into characters, other words as 13a does",
        },
    }
)
