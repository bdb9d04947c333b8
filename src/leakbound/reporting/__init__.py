"""The report: self-contained HTML pages on what models leak, a picture, an index of runs."""

from __future__ import annotations

from leakbound.reporting.index import (
    INDEX,
    REDACTED_INDEX,
    FolderComparison,
    FolderIndex,
    write_index,
)
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
    "INDEX",
    "PAGE",
    "REDACTED_INDEX",
    "REDACTED_PAGE",
    "FolderComparison",
    "FolderIndex",
    "Picture",
    "older_page",
    "page_of",
    "picture",
    "report",
    "write_index",
    "write_report",
]
