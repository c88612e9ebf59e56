"""Reads the weights of the folder."""

import json

import numpy as np


def read_safetensors(path):
    """Name -> array of a file of float32 arrays."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    entries = json.loads(content[8:start])
    entries.pop("__metadata__", None)
    arrays = {}
    for name, entry in entries.items():
        first, last = (start + offset for offset in entry["data_offsets"])
        arrays[name] = np.frombuffer(content[first:last], "<f4").reshape(entry["shape"])
    return arrays
