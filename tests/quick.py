"""Options of the compiler for tests, which compile much and compute little.

Programs that are not optimised take a third of the time to compile. Code in one part instead
of 32 saves about a seventh of the rest: the cores have other tests to run. Where the variable
BAHDANAU_TESTS_OPTIMISED is set, they are optimised as those of users are. JAX is not imported here,
so that the options can be set before JAX reads them.
"""

import os
import re
from importlib import metadata

_JAXLIB = tuple(map(int, re.findall(r"\d+", metadata.version("jaxlib"))[:3]))

OPTIONS: dict[str, int | bool] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
}
if _JAXLIB < (0, 11, 1):  # later compilers do not know the option, and refuse it
    OPTIONS["xla_cpu_use_fusion_emitters"] = False
if os.environ.get("BAHDANAU_TESTS_OPTIMISED"):
    OPTIONS = {}
XLA_FLAGS = " ".join(f"--{name}={str(value).lower()}" for name, value in OPTIONS.items())
