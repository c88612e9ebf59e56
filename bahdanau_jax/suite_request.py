"""The options of a suite of experiments, for its functions and for the command line.

This file imports no JAX, because the help of `bahdanau reproduce` reads it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """The options of a suite."""

    quick: bool = False  # small models and few updates: it runs in minutes and proves nothing
    seeds: int = 0  # seeds of each cell; 0: as many as the suite has by default
    first_seed: int = 1  # the first of these seeds
    steps: int = 0  # updates of each run; 0: as many as the suite has by default
    compute_dtype: str = ""  # precision of matrix products; by default that of the suite
    processes: int = 1  # cells that train at the same time on a CPU, with a share of the cores each
    # Only for the suite "paper":
    train: str = ""  # paper: the address of the training pairs
    dev: str = ""  # paper: dev pairs, which choose checkpoints and are scored
    test: str = ""  # paper: further test pairs
    longer_train: str = ""  # paper: training pairs of a longer run of RNNsearch-50; "": train
    longer_steps: int = 0  # paper: the updates of that run; 0: there is no such run
    root: str = ""  # paper: the folder of relative files
    source_language: str = ""  # paper: language code of the source; default: en
    target_language: str = ""  # paper: language code of the target; default: fr
    # paper: its sizes, its recipe and, without --steps, its updates (288,000 to 846,000 a model),
    # for an accelerator
    paper_size: bool = False
