"""A command that is killed at any moment ends, run again, as if nothing had happened."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from contents import contents
from injector.cases import Clean, Workshop, attempt, clean, judge_server, spread
from injector.events import ACTIONS, Fault, durable_faults
from injector.server import CannotPreloadError, Server
from leakbound.store import Run
from tiny import BOTH_KINDS, tiny_model_folder

pytestmark = pytest.mark.fault
LEAKBOUND = [sys.executable, "-m", "leakbound"]
WORDS = ("who", "wrote", "red", "blue", "green", "sky", "sea", "Ann", "Bob", "Answer:")
DRAWS = 17_000  # so that a part has a part of a question


def command_of(folder: Path, questions: int, *how: object) -> list[str]:
    """`evaluate` of a tiny model, but for --out."""
    model, file = tiny_model_folder(folder / "model"), folder / "mine.csv"
    rows = [f"who wrote {word}?,Ann\n" for word in WORDS[:questions]]
    file.write_text("".join(["question,answer\n", *rows]))
    asked = ("--benchmark", file, "--max-new-tokens", 8, "--scorer", "contains")
    return [*LEAKBOUND, "evaluate", *map(str, (model, *asked, *how)), "--out"]


def finish(command: list[str], out: Path) -> Path:
    done = subprocess.run([*command, str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def files_done(out: Path) -> int:
    """Files of draws and of masses that are there, whole."""
    return sum(len(list(out.rglob(f"{kind}/part-*.parquet"))) for kind in ("completions", "masses"))


def kill_when(ready: Callable[[], bool], seconds: float, command: list[str], out: Path) -> int:
    """Start the command, and kill it so many seconds after `ready`; gives its process's number.

    Where it is done by then, as on a fast machine or a busy one, it is started again from the same
    files and killed sooner: it is never let through alive.
    """
    before = out.with_name(f"{out.name}-before")
    if out.exists():
        shutil.copytree(out, before)
    for wait in (seconds, seconds / 4, 0, 0, 0, 0):
        with subprocess.Popen(
            [*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            while not ready() and process.poll() is None:
                time.sleep(0.001)
            time.sleep(wait)
            process.kill()
        if process.returncode == -signal.SIGKILL:
            shutil.rmtree(before, ignore_errors=True)
            return process.pid
        assert process.returncode == 0
        shutil.rmtree(out)
        if before.exists():
            shutil.copytree(before, out)
    raise AssertionError("the command was always done before it was killed")


IDS = "rules,queries=6,ids=yes,ids_draws=1500"
KINDS: dict[str, tuple[int, tuple[object, ...], tuple[int, ...]]] = {
    "fixed": (3, ("-n", DRAWS), ()),  # killed again and again
    "explored": (10, ("--explore", "hybrid,forwards=600"), (0, 2, 2 * 3 + 1)),
    "selected": (3, ("-n", 2048, "--inputs", IDS), (0, 3, 9)),
}
"""Questions, options, and numbers of files after which the command is killed.

With all of its files, it is scoring or bounding when it is killed.
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[list[str], Run]]:
    """By the name of a kind, a command without --out, and the run that nothing interrupted."""

    @cache
    def of(name: str) -> tuple[list[str], Run]:
        folder = tmp_path_factory.mktemp(f"kill-{name}")
        questions, how, _ = KINDS[name]
        command = command_of(folder, questions, *how)
        return command, Run.open(finish(command, folder / "whole"))

    return of


def require_same(out: Path, whole: Run) -> None:
    """Require that a run equals the run that nothing interrupted."""
    run = Run.open(out)
    assert run.queries == whole.queries
    assert contents(run) == contents(whole)
    chosen = [path / "selection" / "ids.json" for path in (out, whole.path)]
    assert len({file.read_text() if file.exists() else None for file in chosen}) == 1


@pytest.mark.parametrize(
    ("name", "files"), [(name, files) for name, (*_, moments) in KINDS.items() for files in moments]
)
def test_killed_once(name: str, files: int, made: Any, tmp_path: Path) -> None:
    """At a random moment after that many files, those of the selection among them."""
    (command, whole), out = made(name), tmp_path / "run"
    kill_when(lambda: files_done(out) >= files, random.Random(files).uniform(0, 0.5), command, out)
    finish(command, out)
    require_same(out, whole)


def test_killed_again_and_again(made: Any, tmp_path: Path) -> None:
    """Six times in one run, at first as it begins; what was finished stays finished."""
    (command, whole), out, chance = made("fixed"), tmp_path / "run", random.Random(0)
    kill_when((out / "prompts.parquet").exists, 0, command, out)  # as a rule there is no run.json
    for parts in (0, 1, 2, 3, 5):
        before = files_done(out)
        kill_when(lambda n=parts: files_done(out) >= n, chance.uniform(0, 0.5), command, out)
        assert files_done(out) >= max(parts, before)
    finish(command, out)
    require_same(out, whole)


BUDGET = "300"
PROVE = [*LEAKBOUND, "prove", "--budget", BUDGET]


def proofs(run: Path) -> dict[str, Any]:
    """Return the contents of a run, with its proofs; nothing of it is unfinished."""
    opened = Run.open(run)
    arm = opened.arms["target"]
    (slug,) = (file.stem for file in (arm.folder / "proofs").glob("*"))
    assert not list(arm.folder.rglob("*.jsonl"))
    found = arm.proofs.stored
    told = {"proofs": found.table(slug).to_pylist(), "digest": found.digest(slug)}
    return {**contents(opened), **told}


def kept(run: Path) -> list[bytes]:
    """The questions that an unfinished search keeps, each as it is written."""
    files = sorted(run.glob("arms/target/proofs/*.jsonl"))
    return [line for file in files for line in file.read_bytes().splitlines() if line]


def reached(run: Path, questions: int) -> bool:
    """Whether so many questions are kept, or stored with all others."""
    stored = list(run.glob("arms/target/proofs/*.parquet"))
    return len(kept(run)) >= questions or bool(stored)


class Proved(NamedTuple):
    """An evaluation, but for --out; its run, of which nothing is proved; what then is."""

    command: list[str]
    drawn: Path
    proofs: dict[str, Any]


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Proved:
    folder = tmp_path_factory.mktemp("kill-proving")
    command = command_of(folder, 6, "-n", 64)
    drawn = finish(command, folder / "run")
    found = proofs(finish(PROVE, Path(shutil.copytree(drawn, folder / "whole"))))
    assert len(found["proofs"]) > 6
    return Proved(command, drawn, found)


@pytest.mark.parametrize("moments", [(1,), (3,), (6,), (2, 4)], ids=str)
def test_a_search_resumes(moments: tuple[int, ...], proved: Proved, tmp_path: Path) -> None:
    """Killed after so many of six questions; what was found of one stays, in the same words."""
    run = Path(shutil.copytree(proved.drawn, tmp_path / "run"))
    wait = random.Random(moments[0]).uniform(0, 0.2) if len(moments) == 1 else 0
    for questions in moments:
        before = kept(run)
        kill_when(partial(reached, run, questions), wait, PROVE, run)
        assert len(moments) == 1 or kept(run)[: len(before)] == before
    assert proofs(finish(PROVE, run)) == proved.proofs


@pytest.mark.parametrize("questions", [1, 4])
def test_evaluate_with_proofs_resumes(questions: int, proved: Proved, tmp_path: Path) -> None:
    run, command = tmp_path / "run", [*proved.command[:-1], "--prove", BUDGET, "--out"]
    kill_when(partial(reached, run, questions), 0, command, run)
    assert proofs(finish(command, run)) == proved.proofs


def last_step(kept: Path) -> int:
    return max((int(p.name.rpartition("-")[2]) for p in kept.glob("checkpoint-*")), default=0)


@BOTH_KINDS
def test_a_training_ends_with_the_same_weights(embeddings: None, tmp_path: Path) -> None:
    """120 steps with a checkpoint after each; the command is killed in the first half.

    From the twentieth step, the log has a multiplier that changes.
    """
    model, questions = tiny_model_folder(tmp_path / "model", attention_dropout=0.1), "mine.csv"
    rows = ("who red,Ann red,forget", "wrote blue,Ann blue,forget", "who sky,Ann sky,retain")
    (tmp_path / questions).write_text("\n".join(["question,answer,role", *rows]) + "\n")
    objective = "npo:retain=0+entropy+pdu:forget=0,retain=0.5,at_most=1,step=0.1,warmup=10"
    how = ("--objective", objective, "--benchmark", tmp_path / questions, "--device", "cpu")
    how += ("--epochs", 60, "--batch-size", 1, "--checkpoint-minutes", 0)
    command = [*LEAKBOUND, "unlearn", *map(str, (model, *how)), "--out"]
    whole = finish(command, tmp_path / "whole")
    out, chance = tmp_path / "m", random.Random(0)
    for steps in (0, 6, 18, 36, 60):
        ready = partial(lambda n: last_step(tmp_path / ".m.training") >= n, steps)
        kill_when(ready, chance.uniform(0, 0.2), command, out)
        assert not out.exists()
    finish(command, out)
    assert len({(path / "model.safetensors").read_bytes() for path in (whole, out)}) == 1
    logs = [(m / "training.jsonl").read_text().splitlines() for m in (whole, out)]
    told = [[json.loads(line)["multiplier retain nll"] for line in log] for log in logs]
    assert told[0] == told[1]
    assert len({*told[0][:20]}) == 1
    assert len({*told[0]}) > 90


Cleans = Callable[[str], Clean]
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
def without(workshop: Workshop, server: Server) -> Cleans:
    """The commands without a fault, by case."""
    return cache(lambda case: clean(workshop, case, server))


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
        told = workshop.run("score", server, Fault(action, middle))
        assert (told.status, told.err.splitlines()[-1]) == (
            3,
            "leakbound: stopped. Run the same command again to resume.",
        )
