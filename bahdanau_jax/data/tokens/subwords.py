"""Training of a sentencepiece model: its sample of sentences, its options and its errors."""

import io
import itertools
import random
import re
from collections.abc import Iterable

from bahdanau_jax.batch import EOS, UNK, UNK_SYMBOL
from bahdanau_jax.config import DataConfig


class TooManyPieces(ValueError):
    """The setting `field` is larger than `most`, the number of pieces that the text gives."""

    def __init__(self, field: str, size: int, most: int):
        super().__init__(
            f"{field} is {size}, but this text gives at most {most} pieces: lower it to {most} or "
            "less"
        )
        self.field, self.most = field, most


def learn(sentences: Iterable[str], config: DataConfig, size: int, field: str) -> bytes:
    """Train a sentencepiece model and return its file; errors name `field`, the setting of `size`.

    Raises TooManyPieces where the text gives fewer pieces, ValueError for other faults.
    """
    from sentencepiece import SentencePieceTrainer

    sides = 2 if config.joint_vocabulary else 1
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(_sample(sentences, config.subword_sentences * sides)),
            model_writer=model,
            model_type=config.subwords,
            vocab_size=size,
            byte_fallback=config.byte_fallback,
            # With byte fallback, the rarest characters get no entry and become bytes.
            character_coverage=0.9995 if config.byte_fallback else 1.0,
            eos_id=EOS,
            unk_id=UNK,
            bos_id=-1,
            pad_id=-1,
            unk_surface=UNK_SYMBOL,
            normalization_rule_name="identity",
            max_sentence_length=1 << 20,  # bytes; longer lines are ignored
            num_threads=1,  # the model's bytes depend on it
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _explained(str(error), size, field) from error
    return model.getvalue()


def _sample(sentences: Iterable[str], most: int) -> list[str]:
    """A uniform sample of `most` sentences in their order (reservoir sampling); 0: all of them."""
    if not most:
        return list(sentences)
    rng, sentences = random.Random(most), iter(sentences)
    reservoir = list(enumerate(itertools.islice(sentences, most)))
    for n, sentence in enumerate(sentences, start=most):
        # random() returns the same numbers in every version of Python; randrange() does not.
        if (place := int(rng.random() * (n + 1))) < most:
            reservoir[place] = (n, sentence)
    return [sentence for _, sentence in sorted(reservoir)]


def _explained(message: str, size: int, field: str) -> ValueError:
    """An error that says what to do about a message of the trainer."""
    if match := re.search(r"too high .* value <= (\d+)", message):
        return TooManyPieces(field, size, int(match[1]))
    if match := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return ValueError(
            f"{field} is {size}, but the characters of this text alone need {match[1]}: raise it "
            f"to more than {match[1]}"
        )
    if "sentences_.empty()" in message:
        return ValueError("there is no text to learn pieces from: every line is empty")
    return ValueError(f"sentencepiece cannot learn a vocabulary of {field} = {size}: {message}")
