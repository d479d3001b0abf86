"""The live comparison uses the cases and the runs of the fixtures, one folder up."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
