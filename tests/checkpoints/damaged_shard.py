"""A program that is one of two processes: a shard of the newest checkpoint is cut, then restored.

damaged_shard.py PROCESS ADDRESS FOLDER prints what the process read, as JSON.
"""

import json
import os
import sys
import time
from pathlib import Path

import jax
import numpy as np

from bahdanau_jax import distributed
from bahdanau_jax.checkpoints import Checkpointer
from bahdanau_jax.distributed.placement import by_rows, put


def main(process: int, address: str, folder: Path) -> None:
    with distributed.connected(address, 2, process):
        rows = np.random.default_rng(0).standard_normal((512, 256)).astype(np.float32)
        state = {"params": {"E": put(rows, by_rows(distributed.mesh()))}}
        checkpoints = Checkpointer(folder, keep=2)
        for step in (1, 2):
            checkpoints.save(step, state)
            checkpoints.wait()
        distributed.barrier()
        if process == 0:
            shards = [*folder.glob("2/**/ocdbt.process_1/d/*")]
            largest = max(shards, key=lambda path: path.stat().st_size)
            os.truncate(largest, largest.stat().st_size // 2)
        distributed.barrier()
        start = time.perf_counter()
        shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
        found = checkpoints.restore(distributed.template(state, shardings))
        read = found["params"]["E"].addressable_shards
        same = all(np.array_equal(shard.data, rows[shard.index]) for shard in read)
        print(json.dumps({"same": same, "seconds": time.perf_counter() - start}))
        checkpoints.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
