"""The command line: one thin file a command. Nothing imports this folder."""

import time

BEGAN = time.perf_counter()  # nothing of this program is imported earlier
