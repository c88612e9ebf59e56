"""Learning the pieces of a sentencepiece model: from which sentences, and what can go wrong."""

import io
import itertools
import random
import re
from collections.abc import Iterable

from bahdanau_jax.batch import EOS, UNK, UNK_SYMBOL
from bahdanau_jax.config import DataConfig


def learn(sentences: Iterable[str], config: DataConfig, size: int, field: str) -> bytes:
    """The file of a sentencepiece model; an error names the setting `field` of its `size`."""
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
        raise ValueError(_mend(str(error), size, field)) from error
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


def _mend(message: str, size: int, field: str) -> str:
    """What to do about the trainer's message."""
    if found := re.search(r"too high .* value <= (\d+)", message):
        return (
            f"{field} is {size}, but this text gives at most {found[1]} pieces: lower it to "
            f"{found[1]} or less"
        )
    if found := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return (
            f"{field} is {size}, but the characters of this text alone need {found[1]}: raise it "
            f"to more than {found[1]}"
        )
    if "sentences_.empty()" in message:
        return "there is no text to learn pieces from: every line is empty"
    return f"sentencepiece cannot learn a vocabulary of {field} = {size}: {message}"
