"""A scorer and a benchmark that residua finds by their entry points."""

from residua_capitals.benchmark import load
from residua_capitals.scorer import FirstWord

__all__ = ["FirstWord", "load"]
