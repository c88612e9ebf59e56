"""Ships configs/ in the package as bahdanau_jax/configs; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["bahdanau_jax", "bahdanau_jax.*"]), "bahdanau_jax.configs"],
    package_dir={"bahdanau_jax.configs": "configs"},
)
