"""Fixtures: models that are opened by name, local files of TOFU, and runs of many tests."""

from opened_models import data, opened
from report_runs import asked, decodings, explored, hostile, proved, runs

__all__ = ["asked", "data", "decodings", "explored", "hostile", "opened", "proved", "runs"]
