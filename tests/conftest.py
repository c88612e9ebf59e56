import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
