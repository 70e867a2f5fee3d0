"""Run the command ``mfrank`` as ``python -m mfrank``."""

import sys

from mfrank.cli.main import main

sys.exit(main())
