"""Fixtures: opened models, local files of TOFU, and runs that many tests read."""

from opened_models import data, opened
from report_runs import asked, decodings, explored, hostile, proved, runs

__all__ = ["asked", "data", "decodings", "explored", "hostile", "opened", "proved", "runs"]
