"""`python -m proxy` is the command `keyrail`."""

import sys

from proxy.cli import main

sys.exit(main())
