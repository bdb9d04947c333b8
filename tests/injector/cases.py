"""The commands that write, each with what it starts from, on models small enough to try them often.

A `Workshop` holds what is only read (models, questions, files of others) and, for each start, a
folder that is copied before a try. Commands are called in that copy.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from injector.events import Fault
from injector.server import Server, Told
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
evaluate --inputs        |                          | evaluate {model} {drawn} {rules} --queries 4
evaluate --ids           |                          | evaluate {model} {drawn} {rules} {ids}
evaluate --attack        |                          | evaluate {model} {drawn} {attacked}
evaluate --metrics       |                          | evaluate {model} {drawn} --metrics all
sample                   |                          | sample {model} {drawn}
score                    | sample                   | score run
score --calibration      | sample                   | score run {judged}
bound                    | score                    | bound run
bound --confidence       | evaluate                 | bound run --confidence 0.9
measure                  | evaluate --metrics       | measure run
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
"""
"""The name of a case, the one that it starts from, and what is called."""

_ASKED = "--benchmark {inputs}/mine.csv --max-new-tokens 4 --out run"
_WORDS = {
    "model": "{inputs}/model",
    "control": "{inputs}/control",
    "asked": _ASKED,
    "drawn": f"{_ASKED} -n 16",
    "until": "--until p<=0.3 --scorer contains",
    "explored": "--explore hybrid --budget 100 --scorer contains",
    "rules": "--inputs rules",
    "ids": "--queries 6 --ids --ids-draws 64",
    "attacked": "--attack 32 --scorer rouge-l-recall",
    "judged": "--scorer judge:model=openai:{judge}#m --calibration {inputs}/labelled.csv",
    "run": "run/certificate.json run",
    "taught": "--benchmark {inputs}/mine.csv --out m --epochs 2 --batch-size 2 --device cpu"
    " --checkpoint-minutes 0",
    "entropy": "--objective npo+entropy --evaluate-every 1",
    "rewritten": "--objective cel:layer=0 --rewritings {inputs}/other.jsonl",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A command, and the case that it starts from; none: an empty folder."""

    arguments: tuple[str, ...]
    after: str = ""

    @property
    def trains(self) -> bool:
        """True if what it does depends on how the model's embeddings are tied."""
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

    return chat_server(verdict)


class Workshop:
    """A folder with all that the cases need; `work` in it is where commands run."""

    def __init__(self, folder: Path, *, tied: bool = False, judge: str = "http://nowhere") -> None:
        self.judge = judge  # where `judge_server` answers
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
        rows = [f"{question},{answer},{answer},{role}" for question, answer, role in ROWS]
        head = "question,answer,keywords,role"
        (self.inputs / "mine.csv").write_text("\n".join([head, *rows]) + "\n")
        (self.inputs / "labelled.csv").write_text("label,judge\n" + "1,1\n" * 30 + "0,0\n" * 40)
        other = {"question": ROWS[0][0], "rewritings": REWRITINGS}
        (self.inputs / "other.jsonl").write_text(json.dumps(other) + "\n")

    @cached_property
    def cases(self) -> Mapping[str, Case]:
        """Every case, by its name."""
        return _cases(self.inputs, self.judge)

    def begin(self, name: str, server: Server) -> None:
        """Make the working folder what this case starts from."""
        after = self.cases[name].after
        start = self.starts / (after or "nothing")
        if not start.exists():
            if after:
                self.begin(after, server)
                told = server.run(self.cases[after].arguments)
                assert told.status == 0, (after, told)
            else:
                empty(self.work)
            shutil.copytree(self.work, start)
        empty(self.work)
        shutil.copytree(start, self.work, dirs_exist_ok=True)

    def run(self, name: str, server: Server, fault: Fault | None = None, **how: bool) -> Told:
        """Call the command of a case in the working folder as it is."""
        return server.run(self.cases[name].arguments, fault, **how)


def empty(folder: Path) -> None:
    """Remove all that a folder holds."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
