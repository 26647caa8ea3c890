"""The root of the checkout. Scripts that run without pytest import this for its test modules."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
for each in ("tests/programs", "lab/tests/clusters", "lab/tests/programs", "lab/sites"):
    if str(ROOT / each) not in sys.path:
        sys.path.append(str(ROOT / each))
