"""The runs that most tests of the page read."""

from __future__ import annotations

from report_runs import asked, decodings, explored, hostile, proved, runs

__all__ = ["asked", "decodings", "explored", "hostile", "proved", "runs"]
