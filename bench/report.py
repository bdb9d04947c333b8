"""The report of a large run: how long it takes to write and to open, and how large it is.

    python bench/report.py [--folder FOLDER] [--questions 400] [-n 1024] [--runs 4] [--json FILE]

Models that say what a table gives them are drawn from, scored and bounded by the real pipeline:
so many runs beside one control, whose sentences of made-up words are nearly all distinct, as those
of a model at temperature 1. They are kept in the folder, and not made again. The page is then
opened in headless Chromium, where node finds playwright-core (NODE_PATH); without them the times
of the browser are left out. Fails where an aim is missed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.evaluation import evaluate
from leakbound.reporting import write_report
from leakbound.store import Run
from leakbound.types import Completion, Decoding, Draws, JsonObject, Prompt, Query, Sample, Usage

AIMS = {
    "write s": 10.0,
    "size MB": 5.0,
    "first paint ms": 1000.0,
    "sort ms": 100.0,
    "search ms": 100.0,
}
LEAKS = (0.9, 0.3, 0.05, 0.01)  # of the runs, about; the control says nothing
SYLLABLES = [
    "ka",
    "lo",
    "mi",
    "ren",
    "to",
    "va",
    "shu",
    "bel",
    "da",
    "fi",
    "gor",
    "hen",
    "ly",
    "mar",
    "ne",
    "pol",
    "qui",
    "ras",
    "ste",
    "un",
    "wy",
    "zo",
]
WORDS = 30  # of an answer


def words(generator: np.random.Generator, number: int) -> list[str]:
    """Made-up words."""
    picked = generator.choice(SYLLABLES, size=(number, 2))
    return ["".join(pair) for pair in picked]


@dataclass
class TableEngine:
    """Says the answer to a question with its leak, and else mixes its words with others."""

    name: str
    leak: float
    task: Benchmark
    usage: Usage = field(default_factory=Usage)

    @property
    def fingerprint(self) -> JsonObject:
        return {"weights": f"{zlib.crc32(self.name.encode()):064x}", "engine": "table"}

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Anything can be sampled."""

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample]:
        answers = {prompt.id: str(prompt.answer) for prompt in self.task.prompts}
        for query in queries:
            generator = np.random.default_rng(zlib.crc32(f"{self.name}{query.id}".encode()))
            share = self.leak * generator.random() ** 2
            answer = answers[query.id].split()
            made: list[Completion] = []
            for chunk, size in enumerate(draws.of(query.id), draws.first_chunk):
                for text, count in self._said(answer, share, size, generator, decoding).items():
                    made.append(Completion(text=text, token_ids=None, count=count, chunk=chunk))
            self.usage.draws += draws.n
            yield Sample(query=query, decoding=decoding, completions=tuple(made))

    def _said(
        self, answer: list[str], share: float, size: int, generator: np.random.Generator,
        decoding: Decoding,
    ) -> dict[str, int]:  # fmt: skip
        leaks = 0 if decoding.greedy else int(generator.binomial(size, share))
        said = {" ".join(answer): leaks} if leaks else {}
        others = np.array(words(generator, 400))
        kept = generator.random((size - leaks, WORDS)) < 0.2 + 0.4 * share
        drawn = generator.choice(others, size=kept.shape)
        for text in map(" ".join, np.where(kept, answer, drawn).tolist()):
            said[text] = said.get(text, 0) + 1
        return said


def task_of(questions: int) -> Benchmark:
    """Questions and answers of made-up words, as long as those of a benchmark of authors."""
    generator = np.random.default_rng(0)
    prompts = tuple(
        Prompt(
            id=f"made-up:{i:04d}",
            question=f"What did {' '.join(words(generator, 2)).title()} say of "
            f"{' '.join(words(generator, 8))}?",
            answer=" ".join(words(generator, WORDS)),
        )
        for i in range(questions)
    )
    return Benchmark(
        name="made-up", prompts=prompts, scorers=("rouge-l-recall",), max_new_tokens=60,
        origin="made up",
    )  # fmt: skip


def finished(run: Path) -> bool:
    """Whether it is there, bounded by the statistics of now."""
    try:
        return bool(Run.open(run).estimates)
    except InputError:
        return False


def made(folder: Path, questions: int, n: int, number: int) -> dict[str, Run]:
    """The runs, finished."""
    task, place = task_of(questions), folder / f"{questions}-{n}"
    names = {f"run-{i + 1}": LEAKS[i % len(LEAKS)] for i in range(number)}
    for name, leak in {"control": 0.0, **names}.items():
        if not finished(place / name):
            control = None if name == "control" else place / "control"
            evaluate(TableEngine(name, leak, task), task, out=place / name, n=n, control=control)
            print(f"made {name}", flush=True)
    return {name: Run.open(place / name) for name in names}


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, and what was aimed at; None: no aim."""

    name: str
    value: float
    aim: float | None


def opened(page: Path) -> dict[str, float]:
    """Milliseconds in a browser, by what took them; empty without one."""
    chromium, script = shutil.which("chromium"), Path(__file__).with_name("report.js")
    if chromium is None or shutil.which("node") is None:
        print("No chromium or node: the page was not opened.")
        return {}
    done = subprocess.run(
        ["node", str(script), chromium, str(page.resolve())],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the page could not be opened: {done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(runs: dict[str, Run], page: Path) -> list[Figure]:
    """The page written and opened."""
    runs = {name: Run.open(run.path) for name, run in runs.items()}  # nothing is read yet
    start, spent = time.perf_counter(), time.process_time()
    write_report(runs, page)
    found = {
        "write s": time.perf_counter() - start,
        "write, processor s": time.process_time() - spent,
        "size MB": page.stat().st_size / 1e6,
    }
    found |= opened(page)
    return [Figure(name, value, AIMS.get(name)) for name, value in found.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("bench-report"))
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("-n", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    runs = made(options.folder, options.questions, options.n, options.runs)
    figures = measure(runs, options.folder / "report.html")
    print(f"{options.questions} questions × {options.n:,} samples × {options.runs} runs\n")
    print("| | measured | aim |\n|---|---|---|")
    for one in figures:
        print(f"| {one.name} | {one.value:.2f} | {'' if one.aim is None else f'≤ {one.aim:g}'} |")
    if options.json:
        options.json.write_text(json.dumps({one.name: one.value for one in figures}, indent=1))
    if missed := [one.name for one in figures if one.aim is not None and one.value > one.aim]:
        raise SystemExit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
