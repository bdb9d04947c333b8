"""The report: one self-contained HTML file on what models leak, and a picture of it."""

from __future__ import annotations

from leakbound.reporting.page import (
    PAGE,
    REDACTED_PAGE,
    Picture,
    older_page,
    page_of,
    picture,
    report,
    write_report,
)

__all__ = [
    "PAGE",
    "REDACTED_PAGE",
    "Picture",
    "older_page",
    "page_of",
    "picture",
    "report",
    "write_report",
]
