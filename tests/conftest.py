"""What all tests share: those that train or run an engine see models of both kinds."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from pathlib import Path

import pytest

from tiny import TIED_AND_NOT, embeddings_tied

HERE = Path(__file__).parent
for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):  # a worker of pytest-xdist is told columns
    os.environ.pop(name, None)
_TIED = pytest.param(True, id="tied")  # as most small models are: those in the quick suite


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    place = Path(metafunc.module.__file__).relative_to(HERE)
    if any(place.is_relative_to(each) for each in TIED_AND_NOT) and _runs_models(metafunc):
        kinds = [pytest.param(False, id="untied", marks=pytest.mark.thorough), _TIED]
        metafunc.parametrize("embeddings", kinds, indirect=True, scope="module")


def _runs_models(metafunc: pytest.Metafunc) -> bool:
    """True where the module imports what makes tiny models, or speaks of it by its helpers."""
    makers = {"tiny", "chatting", "plain_forwards", "plain_training"}
    return any(
        getattr(value, "__module__", "") in makers for value in vars(metafunc.module).values()
    )


@pytest.fixture(scope="module", autouse=True)
def embeddings(request: pytest.FixtureRequest) -> Iterator[None]:
    """How `tiny_llama` ties the embeddings of the models that this module's tests make."""
    with embeddings_tied(getattr(request, "param", False)):
        yield


@pytest.fixture(scope="module", autouse=True)
def _imported_objects_are_kept() -> None:
    """Trainer collects garbage after each training: of what was imported there is none."""
    gc.freeze()


@pytest.fixture(autouse=True)
def interruptible() -> None:
    """SIGINT interrupts, though what a shell starts in its background inherits it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def entropy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that are given no seed draw one: here always the same, so that tests repeat."""
    if "true_entropy" not in request.keywords:
        monkeypatch.setattr("leakbound.stats.order.entropy", lambda: 0)


def pytest_sessionstart() -> None:
    """A mutant runs in a fork of what has run the tests: what they cached would hide it."""
    if os.environ.get("MUTANT_UNDER_TEST"):
        for name, module in list(sys.modules.items()):
            if name.startswith("leakbound."):
                for member in vars(module).values():
                    if isinstance(member, _lru_cache_wrapper):
                        member.cache_clear()
