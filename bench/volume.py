"""What a run itself costs as it grows, whatever draws for it: seconds, memory, bytes, files.

    python bench/volume.py [--most 5e6] [--json FILE]

An engine without a model hands out completions at once: 32 tokens and 24 words each, of a
*peaked* model some 40 distinct ones in 1,024, of a *diffuse* one all of them distinct. What is left
is what the command does with them: planning parts, storing, scoring by ROUGE-L recall, bounding.
Each row is of a process a step, whose peak is its largest resident set; *disk* and *Arrow*, what a
worker sends back, are bytes a draw. The figures by question hold whatever drew them.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leakbound import bound, load, sample, score
from leakbound.benchmarks import Benchmark
from leakbound.sampling import philox
from leakbound.store import DrawnPart
from leakbound.types import Completion, Decoding, Draws, Failure, Prompt, Query, Sample, Usage
from runner import keep, options, table

TOKENS, WORDS, ANSWERS = 32, 24, 10_000
VOCABULARY = [f"w{number}" for number in range(20_000)]
STEPS = ("sample", "score", "bound")


class Canned:
    """An engine whose completions are made up; `seconds` is what that took, `sent` its bytes."""

    def __init__(self, kind: str) -> None:
        self.kind, self.usage = kind, Usage()
        self.seconds, self.sent = 0.0, 0

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"engine": "canned", "weights": self.kind}

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Every question can be asked."""

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        started = time.process_time()
        samples = [self._sample(query, decoding, draws) for query in queries]
        self.usage.draws += sum(one.n for one in samples)
        part = DrawnPart.of([query.id for query in queries], samples, Usage(), {})
        self.sent += part.completions.nbytes
        self.seconds += time.process_time() - started
        yield from samples

    def _sample(self, query: Query, decoding: Decoding, draws: Draws) -> Sample:
        made: list[Completion] = []
        for chunk, size in enumerate(draws.of(query.id), draws.first_chunk):
            key = philox.stream_key(draws.seed, draws.purpose, query.id, chunk)
            random = np.random.default_rng(key)
            made += (
                self._peaked(query, random, size, chunk)
                if self.kind == "peaked"
                else [
                    _completion(random, chunk, 1, -60 - 20 * random.random()) for _ in range(size)
                ]
            )
        return Sample(query=query, decoding=decoding, completions=tuple(made))

    def _peaked(
        self, query: Query, random: np.random.Generator, size: int, chunk: int
    ) -> Iterator[Completion]:
        """Draws of a question's own answers, the k-th with a chance like 1 / k^2."""
        law = 1 / np.arange(1, ANSWERS + 1) ** 2
        law /= law.sum()
        counts = random.multinomial(size, law)
        for k in np.flatnonzero(counts).tolist():
            own = np.random.default_rng([*query.id.encode(), k])
            yield _completion(own, chunk, int(counts[k]), float(np.log(law[k])))


def _completion(random: np.random.Generator, chunk: int, count: int, logprob: float) -> Completion:
    said = random.integers(len(VOCABULARY), size=WORDS).tolist()
    return Completion(
        answer=" ".join(VOCABULARY[i] for i in said),
        finish="stop",
        token_ids=tuple(random.integers(49_152, size=TOKENS).tolist()),
        count=count,
        chunk=chunk,
        logprob=logprob,
        model_logprob=logprob,
        confidence=float(random.random()),
        logprob_floor=logprob - 1e-3,
    )


@dataclass(frozen=True, slots=True)
class Volume:
    """What one run came to.

    seconds, peak_gb: processor time and largest resident set of each step.
    disk, arrow: bytes a draw, of the run's completions and of what workers would send back.
    parts: of its sampled arm; rows: distinct completions; estimates: rows of its table.
    """

    kind: str
    questions: int
    n: int
    seconds: dict[str, float]
    peak_gb: dict[str, float]
    disk: float
    arrow: float
    parts: int
    rows: int
    estimates: int


def benchmark(questions: int) -> Benchmark:
    """Questions whose answers are words of the same vocabulary."""
    random = np.random.default_rng(0)
    words = random.integers(len(VOCABULARY), size=(questions, WORDS)).tolist()
    prompts = tuple(
        Prompt(id=f"q{i}", question=f"What is {i}?", answer=" ".join(VOCABULARY[w] for w in said))
        for i, said in enumerate(words)
    )
    return Benchmark(
        name="canned",
        prompts=prompts,
        origin="",
        scorers=("rouge-l-recall",),
        max_new_tokens=TOKENS,
    )


def step(name: str, kind: str, questions: int, n: int, out: Path) -> dict[str, Any]:
    """One step of a run, in this process; what it took."""
    engine, started = Canned(kind), time.process_time()
    if name == "sample":
        sample(engine, benchmark(questions), out=out, n=n)
    else:
        run = load(out)
        score(run) if name == "score" else bound(run)
    spent = time.process_time() - started - engine.seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"seconds": spent, "peak_gb": peak, "sent": engine.sent}


def measure(kind: str, questions: int, n: int) -> Volume:
    """A run of so many questions and draws, each step of it a process."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "run")
        told = {}
        for name in STEPS:
            asked = [name, kind, str(questions), str(n), str(out)]
            done = subprocess.run(
                [sys.executable, __file__, "--step", *asked], check=True, stdout=subprocess.PIPE
            )
            told[name] = json.loads(done.stdout)
        run = load(out)
        arm = run.arms["target"]
        files = [*(arm.folder / "completions").iterdir()]
        draws = questions * n
        return Volume(
            kind,
            questions,
            n,
            {name: told[name]["seconds"] for name in STEPS},
            {name: told[name]["peak_gb"] for name in STEPS},
            sum(file.stat().st_size for file in files) / draws,
            told["sample"]["sent"] / draws,
            len(files),
            sum(arm.completions(part).num_rows for part in arm.parts),
            len(run.estimates),
        )


SIZES = [
    ("peaked", 100, 1024),
    ("peaked", 1000, 1024),
    ("peaked", 100, 10240),
    ("peaked", 400, 10240),
    ("diffuse", 100, 1024),
    ("diffuse", 1000, 1024),
]
COLUMNS = {
    "model": "{kind}",
    "questions × n": "{questions:,} × {n:,}",
    "parts": "{parts:,}",
    "rows": "{rows:,}",
    **{f"{name}: s, GB": f"{{seconds[{name}]:.1f}}, {{peak_gb[{name}]:.2f}}" for name in STEPS},
    "disk, Arrow": "{disk:.1f}, {arrow:.1f} B",
    "estimates": "{estimates:,}",
}


def main() -> None:
    if sys.argv[1:2] == ["--step"]:  # a process of its own
        name, kind, questions, n, out = sys.argv[2:]
        print(json.dumps(step(name, kind, int(questions), int(n), Path(out))))
        return
    args = options(__doc__, most=(5e6, "draws of a run"))
    sizes = (size for size in SIZES if size[1] * size[2] <= args.most)
    found = table((measure(*size) for size in sizes), COLUMNS)
    keep(args.json, [asdict(one) for one in found])


if __name__ == "__main__":
    main()
