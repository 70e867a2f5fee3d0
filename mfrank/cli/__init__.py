"""The command line: one file per command, flags built from the library's dataclasses."""
