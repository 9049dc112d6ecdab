"""python -m headwater: the same as the command headwater."""

import sys

from headwater.cli.main import main

sys.exit(main())
