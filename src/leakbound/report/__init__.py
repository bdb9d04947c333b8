"""The report: one self-contained HTML file on what models leak."""

from __future__ import annotations

from leakbound.evaluation.views.table import Table
from leakbound.report.page import PAGE, REDACTED_PAGE, page_of, write_report

__all__ = ["PAGE", "REDACTED_PAGE", "Table", "page_of", "write_report"]
