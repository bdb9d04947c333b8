"""A command that is killed at any moment, or meets a fault, ends the same when it runs again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from injector.cases import Clean, Workshop, attempt, clean, facts, judge_server, spread
from injector.events import ACTIONS, Fault, durable_faults
from injector.server import CannotPreloadError, Server

pytestmark = pytest.mark.fault


Cleans = Callable[[str], Clean]
EACH = 1  # tries of each action per command
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
def without(workshop: Workshop, server: Server) -> Cleans:
    """Commands without a fault, by case."""
    return cache(lambda case: clean(workshop, case, server))


KILLED = (
    "evaluate --parts", "evaluate --explore", "evaluate --ids", "evaluate --prove", "prove",
    "unlearn pdu", "unlearn pdu, tied",
)  # fmt: skip


def kept(work: Path) -> dict[Path, bytes]:
    """The finished work of a killed command: parts, and proved questions in a journal."""
    return {file: file.read_bytes() for kind in KEPT for file in work.rglob(kind)}


KEPT = ("part-*.parquet", "proofs/*.jsonl")


@pytest.mark.parametrize("case", KILLED)
def test_killed_again_and_again(
    case: str, workshop: Workshop, server: Server, without: Cleans
) -> None:
    """Each time at a later event of the command; finished work is unchanged."""
    whole = without(case)
    workshop.begin(case, server)
    kills, before = 0, dict[Path, bytes]()
    for moment in range(1, 6):
        fault = Fault("kill before", moment * len(whole.events) // 6)
        kills += workshop.run(case, server, fault).killed
        now = kept(workshop.work)
        for file, content in before.items():
            if file.suffix == ".parquet" or file in now:
                assert now[file].startswith(content), file
        before = now
    assert kills >= 2
    assert workshop.run(case, server).status == 0
    assert facts(workshop.work) == whole.facts


@pytest.mark.parametrize("case", TRIED)
def test_command_resumes(case: str, workshop: Workshop, server: Server, without: Cleans) -> None:
    turn = TRIED.index(case)
    chosen = [action for i, action in enumerate(ACTIONS) if i % 2 == turn % 2]
    for action in chosen:
        for fault in spread(action, without(case), EACH):
            outcome = attempt(workshop, case, fault, without(case), server)
            assert outcome.kind == "same", (fault, outcome.why)


@pytest.mark.parametrize("case", TRIED)
def test_finished_work_outlives_a_power_cut(case: str, without: Cleans) -> None:
    assert durable_faults(without(case).events) == []


def test_a_signal_ends_with_a_message(workshop: Workshop, server: Server, without: Cleans) -> None:
    for action in ("SIGTERM", "SIGINT"):
        workshop.begin("score", server)
        middle = without("score").events[50].n
        seen = workshop.run("score", server, Fault(action, middle))
        assert (seen.status, seen.err.splitlines()[-1]) == (
            3,
            "leakbound: stopped. Run the same command again to resume.",
        )
