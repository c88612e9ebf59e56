"""Which thread of a CPU executes an update: the one that calls it, or one of JAX's own.

A thread of JAX leaves the training loop free to prepare the next update meanwhile. But glibc keeps
an array of more than 64 MiB for the next update only in the main thread, where it is told to
(`cli/jax_defaults.py`). In any other one, every update gets new pages of the kernel for its
temporary arrays, and the kernel fills them with zeros.
"""

import os

import jax

from bahdanau_jax.config import Config

# The units of all sentences of a batch from which new pages cost more than the preparation of the
# next update: with 4,096 (configs/primes.py) they cost less, and with 98,304 (configs/multi30k.py)
# more (docs/decisions/0134-large-updates-in-the-main-thread.md).
LARGE = 16_384

POSITIONS = 20  # of a sentence, where `data.batch_words` sets positions instead of sentences
MAPPINGS = "MALLOC_MMAP_MAX_"  # this variable of glibc is 0 where it keeps large arrays


def dispatch_updates(config: Config) -> None:
    """Let the calling thread execute large updates of a CPU where glibc keeps their memory.

    Others keep JAX's setting. JAX reads this setting when it first uses a CPU. It changes nothing
    in a process that has used one before, and nothing on an accelerator.
    """
    words = config.data.batch_words
    sentences = words // POSITIONS if words else config.data.batch_size
    units = sentences * config.model.hidden_size
    if units >= LARGE and os.environ.get(MAPPINGS) == "0":
        jax.config.update("jax_cpu_enable_async_dispatch", False)
