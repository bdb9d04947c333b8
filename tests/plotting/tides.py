"""Runs whose texts share more or fewer words with the answer, so that ROUGE takes many values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canned import CannedEngine
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate
from leakbound.store import Run
from leakbound.study import Rewritings
from leakbound.types import Decoding, Prompt

ANSWER = "Ossian Quill wrote the tide book in spring by the old northern harbour"
WORDS = ANSWER.split()
ADAPTIVE = Decoding(adaptive_temperature=0.5)
GRID = tuple(Decoding(temperature=t, top_p=p) for t in (0.5, 1.0) for p in (0.9, 1.0))


def benchmark() -> Benchmark:
    """Three questions, each asked in three other ways too."""
    prompts = tuple(
        Prompt(
            id=f"q{i}",
            question=f"Who wrote book {i}?",
            answer=f"{ANSWER} {i}",
            paraphrases=tuple(f"{how} book number {i}?" for how in ("By whom is", "Name", "Whose")),
        )
        for i in range(3)
    )
    scorers = ("rouge-l-recall", "rouge-l-recall>=0.5")
    return Benchmark(
        name="tides", prompts=prompts, scorers=scorers, max_new_tokens=48, origin="made up"
    )


def engine(name: str, knows: float) -> CannedEngine:
    """Likely says nothing of the answer, and more or less of it the more it `knows`."""
    texts = {}
    for i in range(3):
        for j, query in enumerate([f"q{i}", *(f"q{i}~{k:02d}" for k in range(3))]):
            share = min(knows * (1 + i + j) / 4, 0.45)
            rest = {" ".join(WORDS[: 3 * k + i]): share / 4 for k in range(1, 5)}
            texts[query] = {f"nobody {name}": 1 - share, **rest}
    return CannedEngine(texts, name=name)


def make_run(out: Path, name: str, knows: float, **how: Any) -> Run:
    """A finished run."""
    return evaluate(engine(name, knows), benchmark(), out=out, **{"n": 128} | how)


@dataclass(frozen=True)
class Made:
    """Two models beside one control, one asked in other words; a grid; a trained model's folder."""

    runs: tuple[Run, ...]
    grid: Run
    adaptive: Run
    trained: Path


def make_all(folder: Path) -> Made:
    """All of it, in this folder."""
    make_run(folder / "control", "control", 0.02)
    beside = {"control": folder / "control"}
    first = make_run(folder / "npo", "npo", 0.3, **beside)
    asked = Rewritings("benchmark", queries=3)
    second = make_run(
        folder / "ours", "ours", 0.1, n=64, control=engine("other", 0.02), rewritings=asked
    )
    return Made(
        (first, second),
        make_run(folder / "grid", "grid", 0.2, n=32, decodings=GRID),
        make_run(folder / "adaptive", "npo", 0.3, n=32, decodings=(ADAPTIVE,)),
        trained(folder / "model"),
    )


def trained(folder: Path, weight: float = -0.5, centres: int | None = None) -> Path:
    """What training leaves beside a model's weights: entropy's weight, centres of each row."""
    folder.mkdir()
    terms = [
        {"loss": "nll", "split": "retain", "weight": 5.0},
        {"loss": "entropy", "split": "forget", "weight": weight},
    ]
    terms = [{**term, "settings": {}, "reduce": "sequence"} for term in terms]
    (folder / "recipe.json").write_text(json.dumps({"objective": {"terms": terms}}))
    if centres is not None:
        chosen = [{"id": f"q{i}", "chosen": list(range(centres))} for i in range(3)]
        (folder / "centres.json").write_text(json.dumps({"splits": {"forget": chosen}}))
    lines = [
        {"loss": 1.0, "retain nll": 5 * 0.7 / s, "forget entropy": -0.25 / s, "step": s}
        for s in range(1, 5)
    ]
    (folder / "training.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
