"""Tables of a run as pandas data frames, where pandas is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pyarrow as pa

from leakbound.errors import InputError


def to_pandas(table: pa.Table) -> Any:
    """The table as a `pandas.DataFrame`; InputError, with the remedy, without pandas."""
    try:
        import_module("pandas")
    except ImportError as error:
        raise InputError(
            f"a data frame needs pandas, which is not installed ({error}). Run `pip install "
            "pandas`, or take `.to_arrow()`, which needs nothing more."
        ) from error
    return table.to_pandas()
