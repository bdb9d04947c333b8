"""The estimates of a run, chosen by their fields or by the words of what they are about."""

from __future__ import annotations

from typing import Any

from leakbound.store import EstimateRow, Run


def rows(run: Run, estimand: str | None = None, **wanted: Any) -> list[EstimateRow]:
    """Those with these fields, and this `estimand` in words where one is given."""
    return [r for r in run.estimates.where(**wanted) if estimand in (None, r.estimand)]
