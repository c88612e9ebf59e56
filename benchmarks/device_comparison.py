"""Results of an accelerator beside those of this machine's CPU: gradients, updates, translations.

    python -c 'from benchmarks.device_comparison import main; main()'

Products are made in full float32, where nothing else is said. In a process with an accelerator, the
CPU gets the program for accelerators too: `model.matrix_products.on_accelerator` asks for the
default platform of the process. So a difference is one of two compilers and devices.
`tests/model/test_accelerator_path.py` compares this program with that of a CPU.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from bahdanau_jax import distributed
from bahdanau_jax.batch import Batch, pad
from bahdanau_jax.config import Config, DecodingConfig, ModelConfig
from bahdanau_jax.decoding import Rules, search_program
from bahdanau_jax.model import ORDERS
from bahdanau_jax.model.loss import sums
from bahdanau_jax.training import Trainer
from benchmarks import device_program, updates
from benchmarks.peers import serving

# A model with all terms, of sizes that no axis shares with another.
SMALL = ModelConfig(
    source_vocabulary=503,
    target_vocabulary=509,
    embedding_size=61,
    hidden_size=97,
    alignment_size=89,
    readout_size=43,
)
PAPER = ModelConfig(source_vocabulary=2_003, target_vocabulary=2_011)  # except its vocabularies
SCALE = 4.0  # the factor of initial weights, so that no term is negligible
ROWS, LONGEST, UPDATES = 16, 20, 5
# The most that results may differ: gradients and scores by ‖a − b‖ / ‖b‖ of an array, losses
# relative. Those of gradients are four times the largest difference of float32 and float64 on a
# CPU, 1.6e-4 for the order `paper`. With these weights the two cells of `conditional` are less
# stable: it has 5.2e-3. The scores of an H200 differed by 1.01e-4 from those of a CPU.
GRADIENTS: Mapping[str, float] = MappingProxyType(
    {**dict.fromkeys(ORDERS, 7e-4), "conditional": 2e-2}
)
TRANSLATIONS = 2e-4
# All gradients together, with initial weights. On a CPU, bfloat16 products differ from those of
# float32 by 3.7e-2, and three times as much is allowed. TF32 has eight times the precision, which
# no CPU shows: a quarter of that is allowed.
ROUNDED: Mapping[str, float] = MappingProxyType(
    {"tf32": 0.03, "bfloat16": 0.11, "tf32, autodiff": 0.03}
)
LOSSES: Mapping[str, float] = MappingProxyType({"float32": 1e-3, "bfloat16": 3e-2})


def accelerator() -> Any:
    return jax.local_devices()[0]


def cpu() -> Any:
    return jax.local_devices(backend="cpu")[0]


def by(device: Any, function: Callable[..., Any], *arguments: Any, precision="highest") -> Any:
    """The result of a function on one device, as arrays of the host."""
    with jax.default_device(device), jax.default_matmul_precision(precision):
        return jax.device_get(jax.jit(function)(*jax.device_put(arguments, device)))


def relative(a: Any, b: Any) -> float:
    """‖a − b‖ / ‖b‖ of the arrays that differ most; infinite where a number is not finite."""
    worst = 0.0
    for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        error = np.linalg.norm(x - y) / max(np.linalg.norm(y), 1e-300)
        worst = max(worst, float(error) if np.isfinite(error) else float("inf"))
    return worst


def random_batch(rows: int, longest: int, source: int, target: int) -> Batch:
    """Random ids of random lengths, with padding, the same on every device."""
    rng = np.random.default_rng(2)

    def side(vocabulary: int):
        return pad(
            [rng.integers(2, vocabulary, n) for n in rng.integers(1, longest, rows)], longest
        )

    return Batch(*side(source), *side(target), np.ones(rows, np.float32))


def parameters(config: ModelConfig, scale: float = SCALE) -> Any:
    """Weights of the host: initial ones times `scale`."""
    with jax.default_device(cpu()):
        drawn = jax.device_get(updates.parameters(config))
    return jax.tree.map(lambda leaf: scale * leaf, drawn)


def gradients(config: ModelConfig, params: Any, batch: Batch) -> Any:
    """The loss and its gradients, before any clipping."""

    def loss(params: Any) -> Any:
        return sums(config, params, batch).loss

    return jax.value_and_grad(loss)(params)


def _gradients_on(
    device: Any, precision: str = "highest", scale: float = SCALE, **changes: Any
) -> Any:
    config = dataclasses.replace(SMALL, **changes)
    batch = random_batch(ROWS, LONGEST, config.source_vocabulary, config.target_vocabulary)
    # Those of all dtypes and gradients are equal. An order may have more of them.
    given = parameters(dataclasses.replace(SMALL, order=config.order), scale), batch
    return by(device, lambda *given: gradients(config, *given), *given, precision=precision)


def compare_gradients(order: str) -> dict[str, Any]:
    """Loss and gradients of one order, with the array that differs most."""
    right = _gradients_on(cpu(), order=order)
    error = relative(_gradients_on(accelerator(), order=order), right)
    return {"difference": error, **_verdict(error, GRADIENTS[order])}


def compare_rounded() -> dict[str, Any]:
    """The differences of gradients by rounded products, of all arrays together.

    The weights are initial ones: with larger ones, gradients by bfloat16 differ by their own norm.
    """
    right = _whole(_gradients_on(cpu(), scale=1.0))
    changes = {"tf32": {}, "bfloat16": {"compute_dtype": "bfloat16"}}
    changes["tf32, autodiff"] = {"gradients": "autodiff"}
    differences = {
        name: relative(_whole(_gradients_on(accelerator(), "default", scale=1.0, **change)), right)
        for name, change in changes.items()
    }
    return {
        "differences": differences,
        "tolerances": dict(ROUNDED),
        "passed": all(error <= ROUNDED[name] for name, error in differences.items()),
    }


def _whole(found: Any) -> Any:
    """The gradients of all parameters as one array."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(found[1])])


def losses(config: ModelConfig, device: Any, steps: int = UPDATES) -> list[float]:
    """Losses in nats per sentence, of updates with the paper's optimiser by the same batch."""
    trainer = Trainer(Config(model=config), distributed.Jit(distributed.mesh([device])))
    with jax.default_device(cpu()):
        params = jax.device_get(updates.parameters(config))
    with jax.default_device(device):
        state = trainer.backend.place(trainer.begin(jax.device_put(params, device)))
    batch = random_batch(ROWS, LONGEST, config.source_vocabulary, config.target_vocabulary)
    placed, each = trainer.backend.feed(batch), []
    for _ in range(steps):
        state, result = trainer.update(state, placed)
        each.append(float(result.loss) / ROWS)
    return each


@functools.cache
def losses_of_cpu(config: ModelConfig) -> list[float]:
    """`losses` by the CPU, which takes minutes at the paper's size; computed once."""
    return losses(config, cpu())


def compare_losses(compute_dtype: str, config: ModelConfig = PAPER) -> dict[str, Any]:
    """Products in the default precision of the device, which may round their factors."""
    right = losses_of_cpu(config)
    ours = losses(dataclasses.replace(config, compute_dtype=compute_dtype), accelerator())
    error = float(np.max(np.abs(np.subtract(ours, right) / right)))
    error = error if np.isfinite(error) else float("inf")
    return {
        "difference": error,
        **_verdict(error, LOSSES[compute_dtype]),
        "losses": {"accelerator": ours, "cpu": right},
    }


def translations(config: ModelConfig, params: Any, device: Any, beam_size: int, rows: int) -> Any:
    """The n-best lists of random sentences."""
    batch = random_batch(rows, LONGEST, config.source_vocabulary, config.target_vocabulary)
    inputs = search_program.Inputs(
        batch.source,
        batch.source_mask,
        Rules(np.full(rows, 2 * LONGEST, np.int32)),
        np.zeros((rows, 2), np.int32),
        np.int32(1),
    )
    decoding = DecodingConfig(beam_size=beam_size, length_normalization="wu")

    def search(params: Any, inputs: Any) -> Any:
        return search_program.search((config,), (params,), inputs, 2 * LONGEST, decoding, 1)

    return by(device, search, params, inputs)


def compare_translations(beam_size: int, rows: int = 64) -> dict[str, Any]:
    """The share of sentences that both devices translate alike, and the scores of these."""
    params = parameters(SMALL)
    ours, theirs = (
        translations(SMALL, params, device, beam_size, rows) for device in (accelerator(), cpu())
    )
    equal = np.all(ours.tokens == theirs.tokens, axis=(1, 2))
    error = relative(ours.score[equal], theirs.score[equal]) if equal.any() else float("inf")
    verdict = _verdict(error, TRANSLATIONS)
    return {
        "equal": int(equal.sum()),
        "sentences": rows,
        "difference": error,
        **verdict,
        "passed": verdict["passed"] and bool(equal.all()),
    }


def _verdict(error: float, tolerance: float) -> dict[str, Any]:
    return {"tolerance": tolerance, "passed": error <= tolerance}


COMPARISONS: Mapping[str, Callable[[], dict[str, Any]]] = MappingProxyType(
    {
        "gradients, order paper": lambda: compare_gradients("paper"),
        "translations, greedy": lambda: compare_translations(1),
        **{
            f"gradients, order {order}": lambda order=order: compare_gradients(order)
            for order in sorted(set(ORDERS) - {"paper"})
        },
        "translations, beam 5": lambda: compare_translations(5),
        "rounded gradients": compare_rounded,
        # The CPU takes minutes for these.
        "losses at the paper's size, bfloat16": lambda: compare_losses("bfloat16"),
        "losses at the paper's size, float32": lambda: compare_losses("float32"),
    }
)
QUICK = 2  # of the first comparisons, which any machine makes soon


def _compare(comparison: str) -> dict[str, Any]:
    try:
        return COMPARISONS[comparison]()
    except Exception as error:  # the other comparisons count
        return {"failed": device_program.described(error)}


def names(quick: bool) -> Sequence[str]:
    """The comparisons, the most important of the fast ones first."""
    return [*COMPARISONS][: QUICK if quick else None]


def main() -> None:
    answers = serving.Answers()
    answers.give(device_program.greeting())
    answers.serve({"compare": _compare})
