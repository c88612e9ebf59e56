"""Other programs, each in a Python environment of its own, which answer requests in JSON lines."""

from benchmarks.peers.process import Failure, Peer
from benchmarks.peers.recipe import joeynmt

__all__ = ["Failure", "Peer", "joeynmt"]
