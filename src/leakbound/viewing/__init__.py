"""The local page over a folder of runs: list, open, compare, follow."""

from __future__ import annotations

from leakbound.viewing.viewer import serving, view

__all__ = ["serving", "view"]
