"""``python -m mfrank`` is the command ``mfrank``."""

import sys

from mfrank.cli.main import main

sys.exit(main())
