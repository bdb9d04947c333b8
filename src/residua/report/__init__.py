"""The report: one self-contained HTML file on what models leak."""

from __future__ import annotations

from residua.evaluation.tables.rows import Table
from residua.report.page import write_report

__all__ = ["Table", "write_report"]
