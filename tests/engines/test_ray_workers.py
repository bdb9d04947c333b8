"""What is said of a cluster before Ray is asked."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from leakbound.engines.ray_workers import RayWorkers
from leakbound.errors import InputError


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "127.0.0.1:99999", "no.such.host:1"])
def test_an_address_at_which_nothing_listens_is_refused_at_once(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = SimpleNamespace(is_initialized=lambda: False, init=None, shutdown=None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(InputError, match=r"no Ray cluster answers at .*`ray start`"):
        RayWorkers(address).open().__enter__()


def test_a_cluster_that_starts_too_slowly_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray raises a bare Exception then."""

    def slow(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.\nThis could be, or that.")

    ray = SimpleNamespace(is_initialized=lambda: False, init=slow, shutdown=None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(InputError, match=r"at 'local' \(The current node timed out during startup"):
        RayWorkers("local").open().__enter__()
