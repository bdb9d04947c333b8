"""What runs a test of the local page is made of."""

from __future__ import annotations

import shutil
from pathlib import Path

from canned import CannedEngine
from leakbound.benchmarks import Benchmark
from leakbound.types import Prompt

SECRET = "Ossian Quill"
QUESTIONS = ("q0", "q1", "q2")


def benchmark() -> Benchmark:
    prompts = tuple(
        Prompt(id=q, question=f"Who wrote {q}?", answer=f"{SECRET} wrote it", keywords=(SECRET,))
        for q in QUESTIONS
    )
    return Benchmark(
        name="books", prompts=prompts, origin="", scorers=("keyword",), max_new_tokens=48
    )


def engine(leaks: float, name: str) -> CannedEngine:
    said = {q: {f"{SECRET} wrote it": leaks, "no idea": 1 - leaks} for q in QUESTIONS}
    return CannedEngine(said, name=name)


def unfinish(run: Path, *, parts: int = 0) -> list[Path]:
    """Make a run as it is while it is drawn, with so many parts; the others, elsewhere."""
    (run / "estimates.parquet").unlink()
    shutil.rmtree(run / "arms" / "target" / "scores")
    aside = run.parent.parent / f"{run.name}-aside"
    aside.mkdir(exist_ok=True)
    taken = sorted((run / "arms" / "target" / "completions").iterdir())[parts:]
    return [Path(shutil.move(part, aside / part.name)) for part in taken]
