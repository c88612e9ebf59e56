"""The effect of UNK replacement on BLEU."""

from collections.abc import Callable, Sequence

from bahdanau_jax.batch import UNK_SYMBOL
from bahdanau_jax.evaluation.scores import bleu, with_unknown_words
from bahdanau_jax.hypothesis import Hypothesis


def unknown_effect(
    replaced: Sequence[Hypothesis], references: Sequence[str], tokenize: Callable[[str], str]
) -> dict[str, float | int]:
    """Return BLEU after and before ("-with-UNK") UNK replacement, and the numbers of UNK.

    `replaced` comes from `replace_unknown`. UNK counts as one wrong word. "tokenized-lowercased" is
    BLEU of text from `tokenize`, in lower case.
    Raises ValueError for no sentences or unequal counts.
    """
    unknown = [h.tokens.count(UNK_SYMBOL) for h in replaced]
    after = [with_unknown_words(h.text) for h in replaced]
    before = [with_unknown_words(h.text if h.original is None else h.original) for h in replaced]
    ours, theirs, gold = ([tokenize(line) for line in side] for side in (after, before, references))
    return {
        "sentences": len(replaced),
        "UNK": sum(unknown),
        "sentences-with-UNK": sum(count > 0 for count in unknown),
        "BLEU": bleu(after, references).score,
        "BLEU-with-UNK": bleu(before, references).score,
        "BLEU-tokenized-lowercased": bleu(ours, gold, "none", lowercase=True).score,
        "BLEU-tokenized-lowercased-with-UNK": bleu(theirs, gold, "none", lowercase=True).score,
    }
