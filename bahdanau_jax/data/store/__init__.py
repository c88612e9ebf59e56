"""Encoded pairs on disk, and the processes that encode them."""
