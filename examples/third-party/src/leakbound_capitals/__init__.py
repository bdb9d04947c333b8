"""A scorer and a benchmark that leakbound finds by their entry points."""

from leakbound_capitals.benchmark import load
from leakbound_capitals.scorer import FirstWord

__all__ = ["FirstWord", "load"]
