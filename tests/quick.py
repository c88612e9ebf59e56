"""Options of the compiler for tests, which compile much and compute little.

Programs that are not optimised take a third of the time to compile. JAX is not imported here, so
that the options can be set before JAX reads them.
"""

import re
from importlib import metadata

_JAXLIB = tuple(map(int, re.findall(r"\d+", metadata.version("jaxlib"))[:3]))

OPTIONS: dict[str, int | bool] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
if _JAXLIB < (0, 11, 1):  # later compilers do not know the option, and refuse it
    OPTIONS["xla_cpu_use_fusion_emitters"] = False
XLA_FLAGS = " ".join(f"--{name}={str(value).lower()}" for name, value in OPTIONS.items())
