"""The runs that charts are drawn from."""

from report_runs import decodings, runs

__all__ = ["decodings", "runs"]
