"""The command line: options built from the dataclasses of the library, one file a command."""
