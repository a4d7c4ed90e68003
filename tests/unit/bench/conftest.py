"""Makes `bench` importable: it lives at the root of the repository, beside `src`, and is never installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
