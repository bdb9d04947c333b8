"""Workers draw what one process draws, at any number, order and loss of workers."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import patch

import pytest

from canned import CannedEngine
from contents import contents
from leakbound.drawing.parts import Job
from leakbound.engines import open_engine
from leakbound.engines.models import OpenModels
from leakbound.engines.ray_workers import RayCrew, RayWorkers, Task, Worker, WorkerShare
from leakbound.errors import IncompleteError, InputError, ModelError
from leakbound.evaluation import bound, evaluate, score
from leakbound.scoring.score import ScoreJob
from leakbound.store import Arm, Run
from leakbound.study import Attack, Explore, ModelSettings, Prove, Rewritings, Until
from leakbound.types import Crew, Decoding
from suites import slow_but
from tiny import sequence_classifier, tiny_model_folder


class LostError(Exception):
    """Replaces the errors by which Ray reports a lost worker."""


ERRORS = SimpleNamespace(RayError=LostError, RayTaskError=type("RayTaskError", (Exception,), {}))


@dataclass
class FakeCluster:
    """Ray in one process; tasks and results are pickled.

    The task that was sent last runs first. `rooms`: the number of workers that fit at each look;
    the last value stays. `loses`: the numbers, in order of sending, of the tasks that kill their
    worker; `stillborn`: the numbers of the workers that never start.
    """

    rooms: Sequence[int] = (2,)
    loses: frozenset[int] = frozenset()
    stillborn: frozenset[int] = frozenset()
    sent: list[Task] = field(default_factory=list)
    by: list[int] = field(default_factory=list)
    hired: int = 0
    most_out: int = 0
    exceptions: ClassVar[Any] = ERRORS
    _looks: int = 0
    _out: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    _workers: dict[int, Worker] = field(default_factory=dict)

    @contextmanager
    def open(self) -> Iterator[Crew]:
        """Return the crew that starts its workers here."""
        crew = RayCrew(self, WorkerShare(cpus=1, gpus=0), look=0.0, patience=0.1)
        try:
            with closing(crew):
                yield crew
        finally:
            assert not self._workers

    def nodes(self) -> list[dict[str, Any]]:
        self._looks += 1
        room = self.rooms[min(self._looks, len(self.rooms)) - 1]
        return [{"Alive": True, "Resources": {"CPU": room}}]

    def remote(self, kind: type[Worker]) -> Any:
        def hire() -> FakeActor:
            self.hired += 1
            self._workers[self.hired] = kind()
            return FakeActor(self, self.hired)

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=hire))

    def send(self, worker: int, tasks: Sequence[Task]) -> int | str:
        if not tasks:  # it has only to start
            return f"hired {worker}"
        assert worker not in [busy for busy, _ in self._out.values()]
        self.sent.append(tasks[-1])
        self.by.append(worker)
        number = len(self.sent)
        self._out[number] = worker, pickle.dumps(tasks)
        self.most_out = max(self.most_out, len(self._out))
        return number

    def wait(self, tickets: Sequence[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        hired = [ticket for ticket in tickets if isinstance(ticket, str)]
        return hired or [max(tickets)], []

    def get(self, ticket: Any) -> Any:
        if isinstance(ticket, str):
            if int(ticket.split()[-1]) in self.stillborn:
                raise LostError("it has no leakbound")
            return None
        worker, tasks = self._out.pop(ticket)
        if ticket in self.loses:
            raise LostError(f"worker {worker} ran out of memory")
        return pickle.loads(pickle.dumps(self._workers[worker].do(pickle.loads(tasks))))

    def kill(self, actor: FakeActor) -> None:
        del self._workers[actor.number]
        self._out = {n: sent for n, sent in self._out.items() if sent[0] != actor.number}


class FakeActor:
    def __init__(self, cluster: FakeCluster, number: int) -> None:
        self.number = number
        self.do = SimpleNamespace(remote=partial(cluster.send, number))


Given = dict[str, Any]
Shared = tuple[Run, FakeCluster]
Monkey = pytest.MonkeyPatch
SETTINGS = ModelSettings(device="cpu")
SHORT, LONG = Decoding(max_new_tokens=8), Decoding(max_new_tokens=200)
N = 90  # two chunks


@pytest.fixture(scope="module", autouse=True)
def parts_of_one_question() -> Iterator[None]:
    with patch("leakbound.store.plan.PART", 2 * N - 1), patch("leakbound.store.plan.CHUNK", 80):
        yield


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("asked")
    questions = folder / "mine.csv"
    rows = ["who wrote red,Ann", "who wrote blue,Bob sea", "green sky,red", "sea,sky", "red,Ann"]
    questions.write_text("question,answer\n" + "\n".join(rows) + "\n")
    model = tiny_model_folder(folder / "model")
    return {"model": str(model), "study": f"csv:{questions}"}


def drawn(given: Given, out: Path, **fields: Any) -> Run:
    how = {"scorers": ("contains",), "settings": SETTINGS, "decodings": SHORT, "seed": 3}
    steered = "sampling" in fields
    return evaluate(**given, out=out, **{**how, **({} if steered else {"n": N}), **fields})


@pytest.fixture(scope="module")
def whole(given: Given, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return drawn(given, tmp_path_factory.mktemp("whole") / "run")


def before_parts(cluster: FakeCluster) -> int:
    return next(i for i, task in enumerate(cluster.sent) if isinstance(task.job, Job))


@pytest.fixture(scope="module")
def shared(given: Given, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    cluster = FakeCluster()
    return drawn(given, tmp_path_factory.mktemp("shared") / "run", workers=cluster), cluster


@pytest.mark.thorough
def test_two_workers_draw_the_same(shared: Shared, whole: Run) -> None:
    run, cluster = shared
    assert contents(run) == contents(whole)
    assert cluster.most_out == 2
    assert set(cluster.by) == {1, 2}
    assert [len(arm.parts) for arm in run.arms.values()] == [1, 5]
    for name, arm in run.arms.items():
        assert arm.spec.machine == whole.arms[name].spec.machine
        assert arm.usage.draws == whole.arms[name].usage.draws
        assert arm.usage.forwards == whole.arms[name].usage.forwards


@pytest.mark.slow
def test_lost_work_is_repeated(given: Given, whole: Run, shared: Shared, tmp_path: Path) -> None:
    steady, begun = shared[1], before_parts(shared[1])
    failing = FakeCluster(loses=frozenset({1, begun + 2, begun + 5}))
    run = drawn(given, tmp_path / "run", workers=failing)
    assert contents(run) == contents(whole)
    assert len(failing.sent) == len(steady.sent) + 3
    assert failing.hired == steady.hired + 3


@pytest.mark.slow
@pytest.mark.parametrize("rooms", [(1,) * 12 + (3,), (0, 0, 2)], ids=["later", "none at first"])
def test_new_workers_get_work(
    given: Given, whole: Run, tmp_path: Path, rooms: Sequence[int]
) -> None:
    cluster = FakeCluster(rooms=rooms, stillborn=frozenset({2}))
    run = drawn(given, tmp_path / "run", workers=cluster)
    assert contents(run) == contents(whole)
    assert len(set(cluster.by)) >= 2
    assert 2 not in cluster.by


@pytest.mark.slow
@pytest.mark.parametrize("begun_with_workers", slow_but([True], [True, False]))
def test_workers_may_change_between_commands(
    given: Given, whole: Run, tmp_path: Path, monkeypatch: Monkey, begun_with_workers: bool
) -> None:
    write_part, left = Arm.write_part, [3]

    def stops(arm: Arm, *args: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        write_part(arm, *args)

    workers = [FakeCluster(), None] if begun_with_workers else [None, FakeCluster()]
    with monkeypatch.context() as patched:
        patched.setattr(Arm, "write_part", stops)
        with pytest.raises(KeyboardInterrupt):
            drawn(given, tmp_path / "run", workers=workers[0])
    stored = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("part-*.parquet")}
    assert len(stored) == 3
    run = drawn(given, tmp_path / "run", workers=workers[1])
    assert contents(run) == contents(whole)
    assert all(file.stat().st_mtime_ns == when for file, when in stored.items())


WAYS: dict[str, dict[str, Any]] = {
    "explored": {"sampling": Explore("hybrid", 60)},
    "until": {"sampling": Until("p<=0.3", 150)},
    "rewritten": {"rewritings": Rewritings("rules", queries=2, ids=True, ids_draws=16), "n": 40},
    "attacked": {"attack": Attack(32), "n": 40},
    "measured": {"metrics": ("forget_probability", "forget_rouge_l_recall"), "n": 40},
    "proved": {"prove": Prove(30), "n": 8},
}


@pytest.mark.slow
@pytest.mark.parametrize("way", slow_but(["explored"], WAYS))
def test_workers_find_the_same_in_every_mode(given: Given, tmp_path: Path, way: str) -> None:
    one = drawn(given, tmp_path / "one", **WAYS[way])
    two = drawn(given, tmp_path / "two", **WAYS[way], workers=FakeCluster())
    assert contents(two) == contents(one)


def test_other_models_are_refused(given: Given, tmp_path: Path, monkeypatch: Monkey) -> None:
    folders = iter([given["model"], str(tiny_model_folder(tmp_path / "other", seed=1))])
    monkeypatch.setattr(
        "leakbound.study.settings.open_engine",
        lambda model, prompting, **loading: open_engine(next(folders), prompting, **loading),
    )
    with pytest.raises(ModelError, match=r"differs from the model .*: weights\."):
        drawn(given, tmp_path / "run", workers=FakeCluster())


@pytest.mark.slow
def test_deadly_work_ends_the_run(given: Given, whole: Run, shared: Shared, tmp_path: Path) -> None:
    deadly = FakeCluster(loses=frozenset(range(before_parts(shared[1]) + 2, 99)))
    with pytest.raises(IncompleteError, match=r"5 workers were lost .* ran out of memory"):
        drawn(given, tmp_path / "run", workers=deadly)
    assert len(list((tmp_path / "run").rglob("part-*.parquet"))) == 1
    assert contents(drawn(given, tmp_path / "run")) == contents(whole)


BARREN = FakeCluster(stillborn=frozenset(range(999_999)))


@pytest.mark.parametrize(
    ("model", "how", "error", "message"),
    [
        ("/absent/model", {}, ModelError, "no model folder"),
        ("", {"decodings": LONG}, InputError, "exceed the model's context of 128"),
        (CannedEngine({}), {}, InputError, "got an engine, CannedEngine"),
        ("", {"workers": FakeCluster(rooms=(0,))}, IncompleteError, "available .* is busy"),
        ("", {"workers": BARREN}, IncompleteError, "no worker was available .* no leakbound"),
    ],
)
def test_runs_without_workers_or_a_model_are_refused(
    given: Given, tmp_path: Path, model: Any, how: Given, error: type[Exception], message: str
) -> None:
    named = given | ({"model": model} if model else {})
    with pytest.raises(error, match=message):
        drawn(named, tmp_path / "run", **({"workers": FakeCluster()} | how))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"most": 0}, "`most` of the workers must be at least 1, got 0"),
        ({"threads": 0}, "`threads` of the workers must be at least 1, got 0"),
        ({"gpus": 1.5}, "a fraction below 1 or a whole number, got 1.5"),
        ({"gpus": -1.0}, "a fraction below 1 or a whole number, got -1.0"),
    ],
)
def test_impossible_numbers_of_workers_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RayWorkers(**wrong)


def test_without_ray(given: Given, tmp_path: Path, monkeypatch: Monkey) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"Ray needs ray, which is not installed.*'\.\[ray\]'"):
        drawn(given, tmp_path / "run", workers=RayWorkers())


def test_workers_score_though_one_is_lost(given: Given, tmp_path: Path) -> None:
    folder, cluster = sequence_classifier(tmp_path / "harm"), FakeCluster(loses=frozenset({2}))
    run = drawn(given, tmp_path / "run", scorers=(f"classifier:{folder}",), n=12)
    before = contents(run)
    for file in tmp_path.glob("run/arms/*/scores/*"):
        file.unlink()
    score(run, settings=SETTINGS, workers=cluster)
    bound(run)
    assert contents(run) == before
    assert all(isinstance(task.job, ScoreJob) for task in cluster.sent)
    parts = sum(len(arm.parts) for arm in run.arms.values())
    assert len(cluster.sent) == parts + 2  # the model is tried first, and one task is lost


def test_other_classifiers_are_refused(given: Given, tmp_path: Path, monkeypatch: Monkey) -> None:
    folder = sequence_classifier(tmp_path / "harm")
    other = sequence_classifier(tmp_path / "other", seed=1)
    here = OpenModels.classify
    opened = iter([folder, other, other])
    monkeypatch.setattr(OpenModels, "classify", lambda models, _: here(models, str(next(opened))))
    scorers = (f"classifier:{folder}",)
    with pytest.raises(ModelError, match=r"another model for 'classifier.*\(different: weights"):
        drawn(given, tmp_path / "run", n=2, scorers=scorers, workers=FakeCluster())


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "127.0.0.1:99999", "no.such.host:1"])
def test_a_silent_address_is_refused(address: str, monkeypatch: Monkey) -> None:
    ray = SimpleNamespace(is_initialized=lambda: False, init=None, shutdown=None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(InputError, match=r"no Ray cluster answers at .*`ray start`"):
        RayWorkers(address).open().__enter__()


def test_a_cluster_that_starts_too_slowly_is_a_message(monkeypatch: Monkey) -> None:
    """Ray raises a bare Exception then."""

    def slow(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.\nThis could be, or that.")

    ray = SimpleNamespace(is_initialized=lambda: False, init=slow, shutdown=None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(InputError, match=r"at 'local' \(The current node timed out during startup"):
        RayWorkers("local").open().__enter__()
