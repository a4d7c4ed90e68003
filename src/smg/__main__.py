"""`python -m smg`, the same as the `smg` command."""

from __future__ import annotations

import sys

from smg.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
