"""Other people's programs, each in a Python environment of its own, asked by lines of JSON."""

from benchmarks.peers.process import Failure, Peer
from benchmarks.peers.recipe import joeynmt

__all__ = ["Failure", "Peer", "joeynmt"]
