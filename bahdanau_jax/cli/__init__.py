"""The command line: one thin file a command. Nothing imports this folder."""
