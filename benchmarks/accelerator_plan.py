"""What the benchmark of an accelerator measures: sizes, settings of the compiler, peers."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bahdanau_jax.config import Config
from benchmarks import sizes
from benchmarks.sizes import Size


class Scale(NamedTuple):
    """The measured sizes: the paper's, or tiny ones that show that the command works."""

    size: Size
    batches: tuple[int, ...]
    lengths: tuple[int, ...]  # S = T; the first one is measured most
    precisions: tuple[str, ...]  # keys of device_program.PRECISIONS, the most useful first
    settings: tuple[str, ...]  # keys of COMPILER
    compared: tuple[int, ...]  # batches in which settings, libraries and profiles are compared
    beams: tuple[int, ...]
    searched: tuple[int, ...]  # batches of searches
    seconds: float  # of a round
    rounds: int
    limits: tuple[int, int, int]  # rows of the large product, repetitions, elements of the copy
    quick: bool  # leave out what needs the paper's size


# Settings of XLA -> what is added to XLA_FLAGS. Programs are compiled with them alone. In nine
# minutes there is time for two after "default", so the most useful ones are first.
COMPILER: Mapping[str, str] = MappingProxyType(
    {
        "default": "",
        "products by libraries": "--xla_gpu_enable_triton_gemm=false",
        "two steps in an iteration": (
            "--xla_gpu_enable_while_loop_unrolling=WHILE_LOOP_UNROLLING_DOUBLE_BUFFER"
        ),
        "loops unrolled in command buffers": (
            "--xla_gpu_enable_command_buffer=+WHILE --xla_gpu_command_buffer_unroll_loops=true"
        ),
        "no command buffers": "--xla_gpu_enable_command_buffer=",
        "split-k 1": "--xla_gpu_experimental_force_split_k=1",
        "loops in command buffers": "--xla_gpu_enable_command_buffer=+WHILE",
    }
)
# Flags with which XLA compiles soon. Comparisons with the CPU need no fast programs: with XLA's
# defaults, the first one took 44 s on an H200, and with these 7 to 27 s.
SOON = "--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=0"
FULL = Scale(
    size=sizes.paper(30),
    batches=(80, 256, 1024, 4096),
    lengths=(30, 50),
    precisions=("bfloat16", "tf32", "float32"),
    settings=tuple(COMPILER),
    compared=(80, 1024),
    beams=(1, 5, 12),
    searched=(64, 512),
    seconds=0.5,
    rounds=3,
    limits=(8192, 20, 2**28),
    quick=False,
)
QUICK = FULL._replace(
    size=sizes.SIZES["tiny"][0],
    batches=(4, 8),
    lengths=(5,),
    precisions=("bfloat16",),
    settings=("default", "loops in command buffers"),
    compared=(4,),
    beams=(1,),
    searched=(4,),
    seconds=0.01,
    rounds=2,
    limits=(64, 2, 2**10),
    quick=True,
)
# Peers in PyTorch -> their settings in addition to EAGER.
EAGER = {"autocast": False, "threads": 1, "keep_memory": True, "foreach": True}
EAGER |= {"compile": False, "compile_update": False}
TORCH: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "torch": {},
        "torch-cudnn": {"encoder": "library"},
        "torch-compiled": {"compile": True},
        "torch-compiled with graphs": {"compile": True, "mode": "reduce-overhead"},
    }
)


class Request(NamedTuple):
    """What the user asked for, and where programs may write."""

    output: Path
    scratch: Path  # deleted at the end
    torch_python: Path | None
    config: Config | None  # of the training

    def missing(self, part: str) -> str:
        """Why a part cannot be measured; "" if it can."""
        if part == "torch" and self.torch_python is None:
            return "no --torch-python was given: the Python of an environment with torch and NumPy"
        if part == "learning" and self.config is None:
            return "no --train was given: the address of a corpus"
        return ""
