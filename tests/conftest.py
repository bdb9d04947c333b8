"""Fixtures and options of all tests."""

from __future__ import annotations

import gc
import os
import signal
import ssl
import sys
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from pathlib import Path

import pytest

from rotation import CLEAN_ALREADY, FILES, has_turn
from shared import changed, forget

HERE = Path(__file__).parent
# A worker of pytest-xdist has columns set; a test states where its data are.
for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "LEAKBOUND_DATA"):
    os.environ.pop(name, None)
# No test waits for a disk; tests of power cuts use other processes (tests/injector).
os.fsync = lambda descriptor: None
# No test verifies a TLS certificate, and a client of a local server takes 20 ms to read them all.
ssl.SSLContext.load_verify_locations = lambda *_, **__: None  # type: ignore[method-assign]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turn", type=int, help="collect only the files of tests that have this turn")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    turn = config.getoption("--turn")
    if turn is None or not collection_path.match("test_*.py"):
        return None
    return not has_turn(collection_path.relative_to(HERE).as_posix(), turn, FILES) or None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    turn = terminalreporter.config.getoption("--turn")
    if turn is not None:
        files = [file.relative_to(HERE).as_posix() for file in sorted(HERE.rglob("test_*.py"))]
        mine = [file for file in files if has_turn(file, turn, FILES)]
        terminalreporter.section(f"turn {turn % FILES} of {FILES}, by {turn}")
        terminalreporter.line(f"{len(mine)} of {len(files)} files: {' '.join(mine)}")


@pytest.fixture(scope="module", autouse=True)
def embeddings(request: pytest.FixtureRequest) -> Iterator[None]:
    """Decide whether models made in this module have tied embeddings: `BOTH_KINDS`."""
    if (made := sys.modules.get("tiny")) is None:  # it loads torch, and this module makes no model
        yield
        return
    with made.embeddings_tied(getattr(request, "param", True)):
        yield


@pytest.fixture(scope="module", autouse=True)
def _what_is_shared_stays_as_it_was() -> Iterator[None]:
    yield
    assert changed() == [], "tests of this module wrote into a shared folder: copy it"


@pytest.fixture(scope="module", autouse=True)
def _charts_are_drawn_where_they_are_tested(request: pytest.FixtureRequest) -> Iterator[None]:
    """A chart takes a tenth of a second, and many tests only read texts of pages."""
    if request.path.parent.name in ("plotting", "reporting", "docs", "demo"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leakbound.reporting.figures.lacking", lambda: "")
        patch.setattr("leakbound.reporting.figures.figures_of", lambda *args: [])
        yield


@pytest.fixture(scope="module", autouse=True)
def _imported_objects_are_kept() -> None:
    """Trainer collects garbage after each training; this exempts imported objects."""
    gc.freeze()


@pytest.fixture(autouse=True)
def interruptible() -> None:
    """Let SIGINT interrupt; background processes of a shell ignore it by default."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def entropy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fix the seed that bounds draw by default, so that tests repeat."""
    if "true_entropy" not in request.keywords:
        monkeypatch.setattr("leakbound.stats.order.entropy", lambda: 0)


def pytest_sessionstart() -> None:
    """Clear caches and shared folders: a mutant runs in a fork of a process that ran the tests."""
    forget()
    if os.environ.get("MUTANT_UNDER_TEST"):
        for name, module in list(sys.modules.items()):
            if name.startswith("leakbound."):
                for member in vars(module).values():
                    if isinstance(member, _lru_cache_wrapper):
                        member.cache_clear()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run only one test before each batch of mutants, as all tests have passed (mutants.py)."""
    if os.environ.get("MUTANT_UNDER_TEST") == "" and os.environ.get(CLEAN_ALREADY):
        config.hook.pytest_deselected(items=items[1:])
        del items[1:]
