"""The command line: one thin file a command. Nothing imports this folder."""

import os
import sys
import time

BEGAN = time.perf_counter()  # the program imports this file first

MENDABLE = 2  # exit code of a user error, which a restart does not mend
LOST = 75  # exit code of a lost process, which a restart of all mends; EX_TEMPFAIL of sysexits.h


def import_from_here() -> None:
    """Let `module:attribute` find the user's own file in the current folder.

    Call it only if the user named a configuration or allowed `trust_code`. Otherwise a file of that
    folder could replace a module that is not installed.
    """
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append("")
