"""Flip a bit of a finished run, and repeat every command that reads the run.

Each must print the same as before, or name the file; anything else, or a traceback, is wrong. The
small runs of every way of drawing need no model.
"""

from __future__ import annotations

import random
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from commands import leakbound, tree

import exploring
import leaky
from canned import SpyEngine, books
from leakbound.certificate import certify
from leakbound.evaluation import bound, evaluate
from leakbound.scorers import make_scorer
from leakbound.scoring.score import slug
from leakbound.store import Run, calibration_file, write_sealed
from leakbound.study import Attack, Rewritings, Until
from tiny import tiny_model_folder

Bytes = Mapping[str, bytes]
WRITTEN = ("estimates.parquet", "report.html", "report-redacted.html")
"""Files that readers write themselves, each from the files that they read."""

_NAMED = (2, 3, 6)  # exit statuses of a command that refuses, or finds a difference
_DIGESTS = re.compile(r"[0-9a-f]{64}")


def plain(out: Path) -> Run:
    """Draw three questions and a control, with two scorers, metrics and a calibration."""
    run = leaky.leaky_run(
        out, scorers=["keyword", "contains"], control=leaky.engine("control"), n=24
    )
    labelled = {"positives": [9, 10], "negatives": [1, 10], "undecided": 0, "file": "0" * 64}
    write_sealed(calibration_file(run.path, slug(make_scorer("keyword"))), labelled)
    values = {"value": 0.5, "by_item": {}}
    metrics = {"arms": {"target": {"metrics": {"rouge": values}}}, "left_out": {}}
    (out / "estimates.parquet").unlink()  # made from the calibration, in the usual order
    write_sealed(out / "utility.json", metrics | {"fingerprint": {"parts": {}}})
    return run


def explored(out: Path) -> Run:
    """Compute masses of outputs, and draw the remainder."""
    engine = exploring.ExploringEngine(draws=30)
    task = exploring.benchmark()
    return evaluate(engine, task, out=out, decodings=exploring.DECODING, **exploring.HYBRID)


def stopped(out: Path) -> Run:
    """Draw questions in looks until a claim about each is decided."""
    return evaluate(leaky.engine(), leaky.benchmark(), out=out, sampling=Until("p<=0.2", 64))


def rewritten(out: Path, **chosen: Any) -> Run:
    """Draw rewritings of every question, all or those that selection kept."""
    wanted = Rewritings("rules", **chosen)
    return evaluate(SpyEngine(lambda *_: 0.25), books("abc"), out=out, rewritings=wanted, n=24)


def attacked(out: Path) -> Run:
    """Draw each question in the wording that leaked most in a search."""
    engine = SpyEngine(lambda query, _: 0.7 if query.prefix else 0.05)
    return evaluate(engine, books("ab"), out=out, attack=Attack(64), n=32)


def measured(out: Path) -> Run:
    """Measure utility and memorisation by a small model."""
    out.parent.mkdir(parents=True, exist_ok=True)
    model = tiny_model_folder(out.with_name("model"))
    questions = out.with_name("mine.csv")
    rows = ("who wrote red,Ann,Ann,forget", "who wrote sky,Bob,Bob,retain")
    questions.write_text("\n".join(["question,answer,keywords,role", *rows]) + "\n")
    how = ("--benchmark", questions, "--metrics", "all", "-n", 16, "--max-new-tokens", 4)
    assert leakbound("evaluate", model, *how, "--out", out).status == 0
    return Run.open(out)


RUNS: Mapping[str, Callable[[Path], Run]] = {
    "plain": plain, "explored": explored, "stopped": stopped, "attacked": attacked,
    "rewritten": partial(rewritten, queries=3), "measured": measured,
    "selected": partial(rewritten, queries=6, ids=True, ids_draws=16),
}  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """The result of a command: its exit status, its words, and its page."""

    status: int
    words: str
    page: str = ""


def commands(run: Path, out: Path, scorer: str) -> Mapping[str, Callable[[], Ended]]:
    """Return every command that reads a run and prints something about it."""
    page = run / "report.html"
    made = [out / "x.jsonl", out / "M_EVAL.json", out / "M_SUMMARY.json"]
    certificate = ("--max-leak", 0.5, "--scorer", scorer, "--out", out / "c.json", "--json")
    wanted: Mapping[str, tuple[object, ...]] = {
        "bound": ("bound", run, "--json"),
        "report": ("report", run, "--json"),
        "certify": ("certify", run, *certificate),
        "verify": ("verify", run / "certificate.json", run, "--json"),
        "export": ("export", run, out / "x.jsonl", "--jsonl"),
        "export --redact": ("export", run, out / "x.jsonl", "--jsonl", "--redact"),
        "export --openunlearning": ("export", run, out / "M_EVAL.json", "--openunlearning"),
    }

    def reply(arguments: tuple[object, ...]) -> Ended:
        for file in (page, out / "c.json", *made):
            file.unlink(missing_ok=True)
        try:
            result = leakbound(*arguments)
        except Exception:
            return Ended(1, traceback.format_exc())
        pages = [file.read_text() for file in (page, *made) if file.exists()]
        # A SHA-256 also covers bytes that nothing reads, so only figures are compared.
        words = _DIGESTS.sub("(digest)", result.out + result.err)
        return Ended(result.status, words, "".join(pages))

    return {name: partial(reply, arguments) for name, arguments in wanted.items()}


def flips(before: Bytes, each: int, seed: int = 0) -> Iterator[tuple[str, int, int]]:
    """Yield (file, byte, bit) of `each` flips in every file that is not a page."""
    for name, content in before.items():
        if not name.endswith(".html"):
            chance = random.Random(f"{seed} {name}")
            for _ in range(each):
                yield name, chance.randrange(len(content)), chance.randrange(8)


class Flipped:
    """A finished run in a folder, and the results of every command before and after a flip."""

    def __init__(self, name: str, out: Path) -> None:
        self.run = RUNS[name](out / name).path
        scorer = "contains" if name == "explored" else "keyword"
        bound(Run.open(self.run), scorer)
        certify(self.run, max_leak=0.5, scorer=scorer)
        self.commands = commands(self.run, out, scorer)
        for ask in self.commands.values():
            ask()
        self.before = tree(self.run)
        self.first = {name: ask() for name, ask in self.commands.items()}
        ended = {name: one.words[-700:] for name, one in self.first.items() if one.status == 1}
        assert not ended, ended

    def wrong(self, file: str, place: int, bit: int) -> Iterator[str]:
        """Yield the faults after a flip of this bit of this file."""
        for command, (kind, why) in self.outcomes(file, place, bit):
            if kind not in ("same", "refused"):
                yield f"{command}, {file} byte {place} bit {bit}: {kind}, {why}"

    def outcomes(self, file: str, place: int, bit: int) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield the outcome of each command: the same, a refusal, or a fault."""
        content = bytearray(self.before[file])
        content[place] ^= 1 << bit
        for name, ask in self.commands.items():
            self._restore()
            (self.run / file).write_bytes(content)
            yield name, self._outcome(name, file, ask(), bytes(content))
        self._restore()

    def _outcome(self, name: str, file: str, reply: Ended, content: bytes) -> tuple[str, str]:
        """Return (same, refused, lost, wrong or traceback; reason)."""
        if reply.status == 1:
            return "traceback", reply.words[-700:]
        after = tree(self.run)
        for other in {**self.before, **after}:
            kept = content if other == file else self.before.get(other)
            if other not in WRITTEN and after.get(other) != kept:
                return "lost", f"{other} was changed, renamed or removed"
        if reply == self.first[name] or self._only_names(reply, self.first[name], file):
            return "same", ""
        named = reply.status in _NAMED and Path(file).name in reply.words
        named |= (name, reply.status) == ("verify", 6)  # it reports the difference
        return ("refused" if named else "wrong"), f"status {reply.status}, {reply.words[-700:]}"

    def _only_names(self, reply: Ended, before: Ended, file: str) -> bool:
        """Return whether the figures are the same, and only a line about the file is new."""

        def others(text: str) -> str:
            return "\n".join(line for line in text.splitlines() if file not in line).strip()

        now, then = ((one.status, others(one.words), others(one.page)) for one in (reply, before))
        return now == then

    def _restore(self) -> None:
        now = tree(self.run)
        for name in {**now, **self.before}:
            if now.get(name) != self.before.get(name):
                if name in self.before:
                    (self.run / name).write_bytes(self.before[name])
                else:
                    (self.run / name).unlink()
