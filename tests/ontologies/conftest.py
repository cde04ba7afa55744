"""The scripts import each other by name, as Python runs them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments" / "ontologies"))
