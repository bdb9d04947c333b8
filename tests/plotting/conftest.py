"""Runs with charts."""

from report_runs import decodings, runs

__all__ = ["decodings", "runs"]
