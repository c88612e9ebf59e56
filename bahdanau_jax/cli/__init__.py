"""The command line: one thin file a command. Nothing imports this folder."""

import time

BEGAN = time.perf_counter()  # nothing of this program is imported earlier

MENDABLE = 2  # exit code: what the user can mend, and starting again would not
LOST = 75  # exit code, EX_TEMPFAIL of sysexits.h: what starting all processes again would mend
