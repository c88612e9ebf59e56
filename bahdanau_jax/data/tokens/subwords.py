"""Learning the pieces of a sentencepiece model: from which sentences, and what can go wrong."""

import io
import itertools
import random
import re
from collections.abc import Iterable

from bahdanau_jax.batch import EOS, UNK, UNK_SYMBOL
from bahdanau_jax.config import DataConfig


class TooManyPieces(ValueError):
    """A text gives fewer pieces than the setting `field` asks for: `most`."""

    def __init__(self, field: str, size: int, most: int):
        super().__init__(
            f"{field} is {size}, but this text gives at most {most} pieces: lower it to {most} or "
            "less"
        )
        self.field, self.most = field, most


def learn(sentences: Iterable[str], config: DataConfig, size: int, field: str) -> bytes:
    """The file of a sentencepiece model; an error names the setting `field` of its `size`.

    Raises TooManyPieces for a size above what the text gives, ValueError for other faults.
    """
    from sentencepiece import SentencePieceTrainer

    sides = 2 if config.joint_vocabulary else 1
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(_drawn(sentences, config.subword_sentences * sides)),
            model_writer=model,
            model_type=config.subwords,
            vocab_size=size,
            byte_fallback=config.byte_fallback,
            # Characters so rare that they are not worth an entry become bytes.
            character_coverage=0.9995 if config.byte_fallback else 1.0,
            eos_id=EOS,
            unk_id=UNK,
            bos_id=-1,
            pad_id=-1,
            unk_surface=UNK_SYMBOL,
            normalization_rule_name="identity",
            max_sentence_length=1 << 20,  # bytes; a longer line teaches nothing
            num_threads=1,  # the model's bytes depend on it
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _mend(str(error), size, field) from error
    return model.getvalue()


def _drawn(sentences: Iterable[str], most: int) -> list[str]:
    """Of more than `most` sentences so many, each as likely as any other; in order. 0: all."""
    if not most:
        return list(sentences)
    rng, sentences = random.Random(most), iter(sentences)
    kept = list(enumerate(itertools.islice(sentences, most)))
    for n, sentence in enumerate(sentences, start=most):
        # Of Python's random only what is made from random() stays the same in every version.
        if (place := int(rng.random() * (n + 1))) < most:
            kept[place] = (n, sentence)
    return [sentence for _, sentence in sorted(kept)]


def _mend(message: str, size: int, field: str) -> ValueError:
    """What to do about the trainer's message."""
    if found := re.search(r"too high .* value <= (\d+)", message):
        return TooManyPieces(field, size, int(found[1]))
    if found := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return ValueError(
            f"{field} is {size}, but the characters of this text alone need {found[1]}: raise it "
            f"to more than {found[1]}"
        )
    if "sentences_.empty()" in message:
        return ValueError("there is no text to learn pieces from: every line is empty")
    return ValueError(f"sentencepiece cannot learn a vocabulary of {field} = {size}: {message}")
