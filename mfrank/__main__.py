"""``python -m mfrank`` is the command ``mfrank``."""

import sys

from mfrank.cli import main

sys.exit(main())
