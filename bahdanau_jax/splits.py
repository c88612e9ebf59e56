"""The default dev and test pairs of a training corpus, from its address alone.

A built-in training corpus has dev and test pairs of the same corpus. Other corpora have none,
because scores on another corpus would say nothing about the model.
"""

import re

OWN = "own"  # the value of data.dev and data.test for the split of a built-in data.train
PAIRS = 500  # pairs of dev and of test by default
BUILTIN = re.compile(r"builtin:(?P<name>[^/?]+)/train(\?(?P<options>.*))?")
WEIGHT = re.compile(r"[\d.]+\*")


def own(train: str, split: str) -> str:
    """The address of the `split` of built-in training corpora; "" if any corpus is not built in.

    The options of a corpus are kept, except its number of pairs and its seed.

    >>> own("builtin:reverse/train?pairs=64000&max=5", "dev")
    'builtin:reverse/dev?pairs=500&max=5'
    """
    splits = []
    for match in map(BUILTIN.fullmatch, _addresses(train)):
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
    plain = (address.partition("?")[0] for address in _addresses(spec))
    return {name.partition("/")[0] if name.startswith("builtin:") else name for name in plain}


def _is_size(option: str) -> bool:
    return option.partition("=")[0] in ("pairs", "seed")


def _addresses(spec: str) -> list[str]:
    parts = (part.strip() for part in spec.split(";"))
    return [WEIGHT.sub("", part, count=1) if WEIGHT.match(part) else part for part in parts]
