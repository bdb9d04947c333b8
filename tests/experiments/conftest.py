"""The experiments are scripts: their folder is where they find one another."""

from __future__ import annotations

import sys
from pathlib import Path

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
sys.path.insert(0, str(EXPERIMENTS))
