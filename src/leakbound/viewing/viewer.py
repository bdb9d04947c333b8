"""`view`: a page in a browser, on this machine alone, over a folder of runs."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from leakbound.errors import InputError
from leakbound.registry import near
from leakbound.viewing.pages import Pages
from leakbound.viewing.server import Served, served


@contextmanager
def serving(folder: str | Path, *, port: int = 0, redact: bool | None = None) -> Iterator[str]:
    """Serve the page over a folder of runs meanwhile, for a `with` statement.

    The page is served on the loopback address alone, to whoever has its address, a token in it.
    Nothing in the folder is changed.

    Args:
        folder: runs lie in it, or below it.
        port: of this machine (0: a free one).
        redact: leave answers, keywords and completions out of reports (None: as `leakbound
            report` was told of each run).

    Yields:
        The address, which holds the token.

    Raises:
        InputError: there is no such folder, or the port cannot be had.
    """
    with _served(folder, port, redact) as where:
        yield where.address


@contextmanager
def _served(folder: str | Path, port: int, redact: bool | None) -> Iterator[Served]:
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"`{root}` is no folder. {near(root)}Name one that runs lie in.")
    pages = Pages(root.resolve(), redact)
    try:
        with served(pages.respond, port) as where:
            yield where
    finally:
        pages.close()


def view(
    folder: str | Path,
    *,
    port: int = 0,
    redact: bool | None = None,
    browser: bool = True,
    ready: Callable[[str], object] = print,
) -> None:
    """Show the runs of a folder in a browser until interrupted: list, open, compare, follow.

    The page is served on the loopback address alone, to whoever has its address, a token in it.
    Nothing in the folder is changed.

    Args:
        folder: runs lie in it, or below it.
        port: of this machine (0: a free one).
        redact: leave answers, keywords and completions out of reports (None: as `leakbound
            report` was told of each run).
        browser: open one, where there is a screen (False: open none).
        ready: called with the address once it is served (default: it is printed).

    Returns:
        None, once it is interrupted.

    Raises:
        InputError: there is no such folder, or the port cannot be had.
    """
    with _served(folder, port, redact) as where, suppress(KeyboardInterrupt):
        ready(where.address)
        if browser and _has_screen():
            webbrowser.open(where.opening)
        threading.Event().wait()


def _has_screen() -> bool:
    """False where a browser would be one of text, which takes the terminal that this runs in."""
    if sys.platform in ("win32", "darwin"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
