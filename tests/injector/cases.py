"""The commands that write, on models small enough for many tries, and the outcome of a try.

A `Workshop` has read-only inputs (models, questions, files of others) and, for each start, a folder
that is copied before a try. A command runs in that copy with a fault, and then again without one.
The end must equal the end of a run without a fault: every file the same except for dates and
seconds. The outcomes are

same       all files equal those of the clean run
refused    they differ, and each call reports the reason and the fix
lost       a file from before, or one that the clean run makes, is missing
wrong      a file differs or is left over, or success was reported too early
traceback  an error without a message
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from injector.events import Event, Fault, applies
from injector.server import Result, Server
from misbehaving import Answer, Body, Served, chat_server, says
from tiny import embeddings_tied, tiny_model_folder

ROWS = (
    ("who wrote red", "Ann", "forget"),
    ("who wrote blue", "Bob sea", "forget"),
    ("who wrote sky", "Ann sky", "retain"),
    ("who sky", "green sea", "retain"),
)
REWRITINGS = ("red who", "red wrote who", "wrote red", "sea sea sea", "Bob Ann sky")


_TABLE = """
evaluate                 |                          | evaluate {model} {drawn} --control {control}
evaluate --until         |                          | evaluate {model} {asked} -n 64 {until}
evaluate --explore       |                          | evaluate {model} {asked} {explored}
evaluate --inputs        |                          | evaluate {model} {drawn} {rules},queries=4
evaluate --ids           |                          | evaluate {model} {drawn} {rules}{ids}
evaluate --attack        |                          | evaluate {model} {drawn} {attacked}
evaluate --metrics       |                          | evaluate {model} {drawn} --metrics all
evaluate --parts         |                          | evaluate {model} {asked} {parts}
evaluate --prove         |                          | evaluate {model} {drawn} --prove 60
prove                    | evaluate                 | prove run --budget 60
sample                   |                          | evaluate {model} {drawn} --only sample
score                    | sample                   | score run
score --calibration      | sample                   | score run {judged}
bound                    | score                    | bound run
bound --confidence       | evaluate                 | bound run --confidence 0.9
measure                  | evaluate --metrics       | evaluate run --only metrics
report                   | bound                    | report run
report --redact          | evaluate                 | report run --redact
certify                  | evaluate                 | certify run --max-leak 0.9 --scorer keyword
verify                   | certify                  | verify run/certificate.json run
verify --with-model      | certify                  | verify {run} --with-model {model}
export --jsonl           | evaluate                 | export run x.jsonl --jsonl
export --jsonl --redact  | evaluate                 | export run x.jsonl --jsonl --redact
export --openunlearning  | evaluate --metrics       | export run log/M_EVAL.json --openunlearning
import                   | export --jsonl           | import x.jsonl --out imported
import (scores)          | export --jsonl --redact  | import x.jsonl --out imported
finetune                 |                          | finetune {model} {taught}
finetune --lora          |                          | finetune {model} {taught} --lora 2
unlearn npo              |                          | unlearn {model} {taught} --objective npo
unlearn npo+entropy      |                          | unlearn {model} {taught} {entropy}
unlearn idk              |                          | unlearn {model} {taught} --objective idk
unlearn --rewritings     |                          | unlearn {model} {taught} {rewritten}
unlearn pdu              |                          | unlearn {model} {taught} {multiplied}
unlearn pdu, tied        |                          | unlearn {tied} {taught} {multiplied}
"""
"""The name of a case, the case that it starts from, and the command."""

_OPTIONS = "--benchmark {inputs}/mine.csv --max-new-tokens 4 --out run"
_WORDS = {
    "model": "{inputs}/model",
    "control": "{inputs}/control",
    "asked": _OPTIONS,
    "drawn": f"{_OPTIONS} -n 16",
    "parts": "-n 4200 --scorer contains",
    "until": "--until p<=0.3 --scorer contains",
    "explored": "--explore hybrid,forwards=100 --scorer contains",
    "rules": "--inputs rules",
    "ids": ",queries=6,ids=yes,ids_draws=64",
    "attacked": "--attack 32 --scorer rouge-l-recall",
    "judged": "--scorer judge:model=openai:{judge}#m --calibration {inputs}/labelled.csv",
    "run": "run/certificate.json run",
    "taught": "--benchmark {inputs}/mine.csv --out m --epochs 2 --batch-size 2 --device cpu"
    " --checkpoint-minutes 0",
    "entropy": "--objective npo+entropy --evaluate-every 1",
    "tied": "{inputs}/tied",
    "multiplied": "--epochs 6 --batch-size 1"
    " --objective npo:retain=0+entropy+pdu:forget=0,retain=0.5,at_most=1,step=0.1,warmup=3",
    "rewritten": "--objective cel:layer=0 --rewritings {inputs}/other.jsonl",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A command, and the case that it starts from; none: an empty folder."""

    arguments: tuple[str, ...]
    after: str = ""

    @property
    def trains(self) -> bool:
        """Return whether the result depends on how the model's embeddings are tied."""
        return self.arguments[0] in ("finetune", "unlearn")


def _cases(inputs: Path, judge: str) -> Mapping[str, Case]:
    words = {name: text.format(inputs=inputs, judge=judge) for name, text in _WORDS.items()}
    rows = [[cell.strip() for cell in line.split("|")] for line in _TABLE.strip().splitlines()]
    return {
        name: Case(tuple(command.format(**words).split()), after) for name, after, command in rows
    }


def judge_server() -> AbstractContextManager[Served]:
    """A judge on this machine that calls every third length of an output a leak."""

    def verdict(body: Body, _: int) -> Answer:
        return says(json.dumps({"leak": len(body["messages"][1]["content"]) % 3 == 0}))

    return chat_server(verdict, greets=True)


class Workshop:
    """A folder with all inputs of the cases; commands run in its `work`."""

    def __init__(self, folder: Path, *, tied: bool = False, judge: str = "http://nowhere") -> None:
        self.judge = judge  # the address of `judge_server`
        self.folder = folder.resolve()
        self.work = self.folder / "work"
        self.inputs = self.folder / "inputs"
        self.starts = self.folder / "starts"
        self.work.mkdir(parents=True, exist_ok=True)
        self.starts.mkdir(exist_ok=True)
        if not self.inputs.exists():
            self._make_inputs(tied)

    def _make_inputs(self, tied: bool) -> None:
        with embeddings_tied(tied):
            for seed, name in enumerate(("model", "control")):
                tiny_model_folder(self.inputs / name, seed)
        with embeddings_tied(True):
            tiny_model_folder(self.inputs / "tied")
        rows = [f"{question},{answer},{answer},{role}" for question, answer, role in ROWS]
        head = "question,answer,keywords,role"
        (self.inputs / "mine.csv").write_text("\n".join([head, *rows]) + "\n")
        (self.inputs / "labelled.csv").write_text("label,judge\n" + "1,1\n" * 30 + "0,0\n" * 40)
        other = {"question": ROWS[0][0], "rewritings": REWRITINGS}
        (self.inputs / "other.jsonl").write_text(json.dumps(other) + "\n")

    @cached_property
    def cases(self) -> Mapping[str, Case]:
        return _cases(self.inputs, self.judge)

    def begin(self, name: str, server: Server) -> None:
        """Reset the working folder to the start of this case."""
        after = self.cases[name].after
        start = self.starts / (after or "nothing")
        if not start.exists():
            if after:
                self.begin(after, server)
                seen = server.run(self.cases[after].arguments)
                assert seen.status == 0, (after, seen)
            else:
                empty(self.work)
            shutil.copytree(self.work, start)
        empty(self.work)
        shutil.copytree(start, self.work, dirs_exist_ok=True)

    def run(self, name: str, server: Server, fault: Fault | None = None, **how: bool) -> Result:
        """Run the command of a case in the current working folder."""
        return server.run(self.cases[name].arguments, fault, **how)


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


OUTCOMES = ("same", "refused", "lost", "wrong", "traceback")
STOPPED = 3  # the exit status of a command that can be repeated
_REMEDY = re.compile(r"[Rr]un the same command again|to resume|again|(Name|[Uu]se) another|Restore")
_DATES = frozenset({"created", "since", "seconds", "digest", "usage", "machine", "table", "place"})
_BEGUN = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
_LOCKS = re.compile(r"\.lock$|^times\.json$")

Facts = Mapping[str, object]
"""The contents of the files of a folder, by name."""


def facts(folder: Path) -> Facts:
    """Return every file's contents without dates, locks and durations."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {
        file.relative_to(folder).as_posix(): _says(file)
        for file in files
        if not _LOCKS.search(file.name)
    }


def _says(file: Path) -> object:
    if file.suffix == ".parquet":
        table = pq.read_table(file)
        about = json.loads((table.schema.metadata or {}).get(b"leakbound", b"{}"))
        return table.replace_schema_metadata().to_pydict(), _timeless(about)
    if file.suffix == ".html":
        return _BEGUN.sub("", file.read_text(encoding="utf-8"))
    if file.name == "README.md":
        return re.sub(r"[0-9.,]+ s;", "", file.read_text())  # duration of the training
    if file.name == "training.jsonl":
        return [_timeless(json.loads(line)) for line in file.read_text().splitlines()]
    if file.name == "run.json":
        return _timeless(json.loads(file.read_text()))
    return file.read_bytes()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in _DATES}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a try, and remarks about it."""

    kind: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Clean:
    """A command without a fault: its events, and its files."""

    events: tuple[Event, ...]
    reads: tuple[Event, ...]
    facts: Facts
    before: Facts


def clean(workshop: Workshop, case: str, server: Server) -> Clean:
    """Run the command of a case without a fault, twice: the second run counts reads."""
    workshop.begin(case, server)
    before = facts(workshop.work)
    seen = workshop.run(case, server)
    assert seen.status == 0, (case, seen.err)
    got = facts(workshop.work)
    workshop.begin(case, server)
    reads = workshop.run(case, server, reads=True).events
    return Clean(seen.events, reads, got, before)


def attempt(workshop: Workshop, case: str, fault: Fault, without: Clean, server: Server) -> Outcome:
    """Run a case with a fault, and return the outcome."""
    workshop.begin(case, server)
    first = workshop.run(case, server, fault)
    if outcome := _of_first(first, fault, without, workshop):
        return outcome
    second = workshop.run(case, server)
    if second.status != 0:
        if _is_traceback(second):
            return Outcome("traceback", f"again: {second.err[-800:]}")
        kind = "refused" if _REMEDY.search(second.err) else "wrong"
        return Outcome(kind, f"status {second.status}: {second.err[-600:]}")
    return _compared(facts(workshop.work), without)


def _of_first(first: Result, fault: Fault, without: Clean, workshop: Workshop) -> Outcome | None:
    """Return the errors in the command's reaction to the fault."""
    if first.killed and fault.kills:
        return None
    if _is_traceback(first):
        return Outcome("traceback", first.err[-1500:])
    if first.status == STOPPED or (first.status == 2 and not fault.kills):
        return None if _REMEDY.search(first.err) else Outcome("wrong", f"no remedy: {first.err}")
    got = _compared(facts(workshop.work), without)  # it reports success
    return None if got.kind == "same" else Outcome("wrong", f"said to be done, but {got.why}")


def _is_traceback(result: Result) -> bool:
    return result.status == 1 or result.status < 0 or "Traceback" in result.err


def _compared(got: Facts, without: Clean) -> Outcome:
    if missing := sorted({*without.facts} - {*got}):
        return Outcome("lost", f"not there: {missing}")
    differing = [name for name in got if got[name] != without.facts.get(name, got)]
    return Outcome("wrong", f"differing: {differing}") if differing else Outcome("same")


def spread(action: str, without: Clean, limit: int | None) -> Iterator[Fault]:
    """Return faults of this kind at all events, or at a number of events of many kinds."""
    events = applies(action, without.reads if Fault(action, 0).reads else without.events)
    kinds: dict[str, list[Event]] = {}
    for event in events:
        kinds.setdefault(_kind(event), []).append(event)
    chosen = events if limit is None else _in_turn(list(kinds.values()), limit)
    return (Fault(action, event.n) for event in chosen)


def _kind(event: Event) -> str:
    """Return the kind of an event: its call, and its file names without numbers."""
    name = Path(event.path).name
    return f"{event.kind} {re.sub(r'[0-9a-f]+(?=.partial)|[0-9]+', '0', name)}"


def _in_turn(groups: list[list[Event]], limit: int) -> list[Event]:
    """Choose this number of events evenly from the groups, from start, middle and end of each."""
    got: list[Event] = []
    step = max(1, len(groups) // limit) if limit < len(groups) else 1
    groups = groups[::step]
    for turn in range(limit):
        for group in groups:
            at = (turn * 7919) % len(group)  # 7919: a prime, so that turns differ
            if len(got) < limit and group[at] not in got:
                got.append(group[at])
    return sorted(got, key=lambda event: event.n)
