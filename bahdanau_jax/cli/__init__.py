"""The command line: one thin file for each command. Nothing imports this folder."""

import os
import sys
import time

BEGAN = time.perf_counter()  # the program imports this file first

USER_ERROR = 2  # exit code of an error that only the user can correct
LOST = 75  # exit code where a process is lost and all should restart: EX_TEMPFAIL of sysexits.h
# The program, for another process. With -P, no file of the current folder replaces a module.
PROGRAM = (sys.executable, "-P", "-m", "bahdanau_jax")


class HelpShown(SystemExit):
    """The text of --help was printed, and the command has nothing more to do."""


def import_from_here() -> None:
    """Let `module:attribute` find the user's own file in the current folder.

    Call it only if the user named a configuration or allowed `trust_code`. Otherwise a file of that
    folder could replace a module that is not installed.
    """
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append("")
