"""Commands that meet a fault at one of their file events, and are called again.

A sample of the events of each command that writes: `make bench-faults` tries them all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from injector.cases import Clean, Workshop, attempt, clean, judge_server, spread
from injector.events import ACTIONS, Fault, durable_faults
from injector.server import CannotPreloadError, Server

pytestmark = pytest.mark.fault
EACH = 1  # tries of each action for a command
TRIED = (
    "evaluate --ids", "score", "score --calibration", "bound", "report --redact", "certify",
    "export --jsonl", "import", "unlearn npo",
)  # fmt: skip


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with judge_server() as judge:
        yield Workshop(tmp_path_factory.mktemp("injected"), judge=judge.url)


@pytest.fixture(scope="module")
def server(workshop: Workshop) -> Iterator[Server]:
    try:
        made = Server(workshop.work)
    except CannotPreloadError as error:
        pytest.skip(str(error))
    with made as server:
        yield server


@pytest.fixture(scope="module")
def without(workshop: Workshop, server: Server) -> dict[str, Clean]:
    """The commands that met no fault, as far as they were asked for."""

    class Kept(dict[str, Clean]):
        def __missing__(self, case: str) -> Clean:
            self[case] = clean(workshop, case, server)
            return self[case]

    return Kept()


@pytest.mark.parametrize("case", TRIED)
def test_the_same_command_ends_as_if_nothing_had_happened(
    case: str, workshop: Workshop, server: Server, without: dict[str, Clean]
) -> None:
    turn = TRIED.index(case)
    chosen = [action for i, action in enumerate(ACTIONS) if i % 2 == turn % 2]
    for action in chosen:
        for fault in spread(action, without[case], EACH):
            outcome = attempt(workshop, case, fault, without[case], server)
            assert outcome.kind == "same", (fault, outcome.why)


@pytest.mark.parametrize("case", TRIED)
def test_what_is_said_to_be_done_outlives_a_power_cut(case: str, without: dict[str, Clean]) -> None:
    assert durable_faults(without[case].events) == []


def test_a_signal_ends_a_process_with_a_message(
    workshop: Workshop, server: Server, without: dict[str, Clean]
) -> None:
    for action in ("SIGTERM", "SIGINT"):
        workshop.begin("score", server)
        middle = without["score"].events[50].n
        told = workshop.run("score", server, Fault(action, middle))
        assert (told.status, told.err.splitlines()[-1]) == (
            3,
            "leakbound: stopped. Run the same command again to go on from here.",
        )
