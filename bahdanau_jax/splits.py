"""Dev and test pairs belong to the corpus that is trained on.

Whoever names another training corpus gets dev and test pairs of that corpus, if it is built in, and
else none: scores on another corpus would say nothing about the model. Works on addresses alone.
"""

import re

OWN = "own"  # a value of data.dev and data.test: those of a built-in data.train, else none
PAIRS = 500  # of dev and of test, where they are not named
BUILTIN = re.compile(r"builtin:(?P<name>[^/?]+)/train(\?(?P<options>.*))?")
WEIGHT = re.compile(r"[\d.]+\*")


def own(train: str, split: str) -> str:
    """The address of the `split` of built-in training corpora; "" where any is not built in.

    The options of a corpus stay, but for its number of pairs and its seed.

    >>> own("builtin:reverse/train?pairs=64000&max=5", "dev")
    'builtin:reverse/dev?pairs=500&max=5'
    """
    named = [BUILTIN.fullmatch(address) for address in _addresses(train)]
    splits = []
    for one in named:
        if one is None:
            return ""
        options = [f"pairs={PAIRS}", *(one["options"] or "").split("&")]
        kept = [o for i, o in enumerate(options) if o and (not i or not _is_size(o))]
        splits.append(f"builtin:{one['name']}/{split}?{'&'.join(kept)}")
    return "; ".join(dict.fromkeys(splits))


def after(train: str, before: str, named: str, split: str) -> str:
    """The address of a split when `train` replaces the training corpora `before`.

    `named`, the split that belongs to `before`, stays where both have a corpus in common.

    >>> after("text:my.en,my.fr", "text:a.en,a.fr", "text:dev.en,dev.fr", "dev")
    ''
    """
    return named if corpora(train) & corpora(before) else own(train, split)


def corpora(spec: str) -> set[str]:
    """What tells the corpora of an address from others: neither weights, options nor splits.

    >>> sorted(corpora("builtin:en-fr/train?pairs=9; 0.5*text:a.en,a.fr"))
    ['builtin:en-fr', 'text:a.en,a.fr']
    """
    plain = (address.partition("?")[0] for address in _addresses(spec))
    return {each.partition("/")[0] if each.startswith("builtin:") else each for each in plain}


def _is_size(option: str) -> bool:
    return option.partition("=")[0] in ("pairs", "seed")


def _addresses(spec: str) -> list[str]:
    parts = (part.strip() for part in spec.split(";"))
    return [WEIGHT.sub("", part, count=1) if WEIGHT.match(part) else part for part in parts]
