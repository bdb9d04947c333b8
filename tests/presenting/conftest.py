"""Fixtures: opened models, local files of TOFU, and runs that many tests read."""

from opened_models import data, opened
from report_runs import asked, decodings, explored, proofs, runs

__all__ = ["asked", "data", "decodings", "explored", "opened", "proofs", "runs"]
