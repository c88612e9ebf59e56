"""Experiments: cells of settings times seeds, and what their scores say."""
