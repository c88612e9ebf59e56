"""The default dev and test pairs of a training corpus, from its address alone.

A built-in training corpus has dev and test pairs of the same corpus. Other corpora have none,
because scores on another corpus would say nothing about the model.
"""

import re

OWN = "own"  # the value of data.dev and data.test for the split of a built-in data.train
PAIRS = 500  # pairs of dev and of test by default
BUILTIN = re.compile(r"builtin:(?P<name>[^/?]+)/train(\?(?P<options>.*))?")
# A weight and an address.
WEIGHTED = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\*(.*)", re.DOTALL)


def weighted(spec: str) -> list[tuple[str, float]]:
    """The addresses of a setting, which `;` separates, each with its weight, by default 1.

    >>> weighted("text:a.en,a.fr; 0.5*tsv:b.tsv")
    [('text:a.en,a.fr', 1.0), ('tsv:b.tsv', 0.5)]
    """
    parts = [part.strip() for part in spec.split(";")]
    return [
        (match[2], float(match[1])) if (match := WEIGHTED.fullmatch(part)) else (part, 1.0)
        for part in parts
    ]


def own(train: str, split: str) -> str:
    """The address of the `split` of built-in training corpora; "" if any corpus is not built in.

    The options of a corpus are kept, except its number of pairs and its seed.

    >>> own("builtin:reverse/train?pairs=64000&max=5", "dev")
    'builtin:reverse/dev?pairs=500&max=5'
    """
    splits = []
    for match in (BUILTIN.fullmatch(address) for address, _ in weighted(train)):
        if match is None:
            return ""
        options = filter(None, (match["options"] or "").split("&"))
        others = [option for option in options if not _is_size(option)]
        splits.append(f"builtin:{match['name']}/{split}?{'&'.join([f'pairs={PAIRS}', *others])}")
    return "; ".join(dict.fromkeys(splits))


def after(train: str, before: str, named: str, split: str) -> str:
    """The address of a split when `train` replaces the training corpora `before`.

    The split `named`, which belongs to `before`, is kept where both have a corpus in common.

    >>> after("text:my.en,my.fr", "text:a.en,a.fr", "text:dev.en,dev.fr", "dev")
    ''
    """
    return named if corpora(train) & corpora(before) else own(train, split)


def corpora(spec: str) -> set[str]:
    """The addresses of the corpora of a setting without weights, options and splits.

    >>> sorted(corpora("builtin:en-fr/train?pairs=9; 0.5*text:a.en,a.fr"))
    ['builtin:en-fr', 'text:a.en,a.fr']
    """
    plain = (address.partition("?")[0] for address, _ in weighted(spec))
    return {name.partition("/")[0] if name.startswith("builtin:") else name for name in plain}


def _is_size(option: str) -> bool:
    return option.partition("=")[0] in ("pairs", "seed")
