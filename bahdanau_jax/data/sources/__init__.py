"""Addresses to text: where sentence pairs come from."""
