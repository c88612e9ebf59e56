"""The command line: one thin file a command. Nothing imports this folder."""

import os
import sys
import time

BEGAN = time.perf_counter()  # nothing of this program is imported earlier

MENDABLE = 2  # exit code: what the user can mend, and starting again would not
LOST = 75  # exit code, EX_TEMPFAIL of sysexits.h: what starting all processes again would mend


def import_from_here() -> None:
    """Let `module:attribute` find the user's own file in the current folder.

    Only where the user named a configuration or said to trust code: otherwise a file of that folder
    could take the place of a module that is not installed.
    """
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append("")
