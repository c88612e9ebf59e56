"""Attention translation with recurrent networks (RNNsearch, arXiv 1409.0473) in JAX."""
