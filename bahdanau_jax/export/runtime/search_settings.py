"""The settings of the search: as options of the command line, and as keywords in Python."""

import argparse
import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from beam import NORMALIZATIONS


def boolean(text: str) -> bool:
    """True or False of an option."""
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def number(text: str) -> float:
    """A finite number of an option."""
    if not math.isfinite(value := float(text)):
        raise ValueError
    return value


# Settings of the search, which are also options; their defaults are in config.json.
OPTIONS = {"beam_size": int, "length_normalization": str, "alpha": number, "coverage": number}
OPTIONS |= {"min_ratio": number, "max_ratio": number, "max_source": int, "batch_size": int}
OPTIONS |= {"shrink": boolean, "ban_unk": boolean}


def chosen(config: Mapping[str, Any], settings: Mapping[str, Any]) -> SimpleNamespace:
    """The settings in config.json, replaced by these. Raises ValueError for wrong ones."""
    if unknown := sorted(settings.keys() - OPTIONS.keys()):
        raise ValueError(f"no settings {', '.join(unknown)}; known: {', '.join(OPTIONS)}")
    for name, value in settings.items():
        kind = type(config["decoding"][name])
        kinds = (int, float) if kind is float else (kind,)
        if type(value) not in kinds or (kind is float and not math.isfinite(value)):
            wanted = "finite number" if kind is float else kind.__name__
            raise ValueError(f"{name} is {value!r}, but should be a {wanted}")
    merged = {**config["decoding"], **settings}
    if wrong := fault(config, merged):
        raise ValueError(wrong)
    return SimpleNamespace(**merged)


def options(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings from the command line."""
    parser = argparse.ArgumentParser(description="Translate lines of stdin to stdout.")
    for name, kind in OPTIONS.items():
        option, default = "--" + name.replace("_", "-"), config["decoding"][name]
        parser.add_argument(option, type=kind, default=default, help=f"default: {default}")
    found = vars(parser.parse_args())
    if wrong := fault(config, found):
        parser.error(wrong)
    return found


def fault(config: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """What is wrong with the settings of a search, by option; "" where nothing is."""
    s = SimpleNamespace(**settings)
    if min(s.beam_size, s.batch_size, s.max_source) < 1:
        return "--beam-size, --batch-size and --max-source should be above 0"
    if not 0 < s.max_ratio <= 100 or min(s.min_ratio, s.coverage) < 0:
        return (
            "--max-ratio should be above 0 and at most 100, --min-ratio and --coverage at least 0"
        )
    if s.min_ratio >= s.max_ratio:
        return "--min-ratio should be below --max-ratio: no translation could end"
    if s.coverage and config["model"]["attention"] == "none":
        return "--coverage needs attention, which this model has not: leave it out"
    if s.length_normalization not in NORMALIZATIONS:
        return f"--length-normalization should be one of {', '.join(NORMALIZATIONS)}"
    return ""
