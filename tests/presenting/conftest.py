"""Fixtures: opened models, local files of TOFU, and runs that many tests read."""

from opened_models import data, opened
from report_runs import decodings, explored, proofs, rewritten, runs

__all__ = ["data", "decodings", "explored", "opened", "proofs", "rewritten", "runs"]
