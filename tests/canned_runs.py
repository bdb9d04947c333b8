"""Runs of models with a table of outputs, made by the real pipeline."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import canned
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate
from leakbound.store import Run
from leakbound.types import Completion, Decoding, Draws, Failure, Prompt, Query

HOSTILE = "</script><script>alert(1)</script> \"quoted\" 'single' & <b>bold</b>"
SECRET = "Ossian Quill"
SCORERS = ("keyword", "rouge-l-recall")
Law = Mapping[str, float]


class CannedEngine(canned.CannedEngine):
    """Draws from a given distribution of texts per query id; other queries fail."""

    longest = 1 << 30

    def __init__(self, name: str, laws: Mapping[str, Law]) -> None:
        super().__init__(laws, name=name)

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"weights": f"{zlib.crc32(self.name.encode()):064x}", "engine": "canned"}

    def ask(self, query: Query) -> Failure | None:
        known = query.id in self.texts
        return None if known else Failure(query=query, reason=f"NaN logits after {SECRET!r}")

    def drawn(self, query: Query, decoding: Decoding, draws: Draws) -> Iterator[Completion]:
        law = self.texts[query.id]
        self.usage.sampled_tokens += 9 * draws.n
        self.usage.forwards += 9
        if decoding.greedy:
            yield Completion(answer=max(law, key=lambda t: law[t]), finish="stop", count=1)
            return
        key = f"{self.name}{query.id}{decoding.name.removeprefix('T=1')}"
        generator = np.random.default_rng(zlib.crc32(key.encode()))
        for chunk, size in draws.chunks(query.id):
            counts = generator.multinomial(size, list(law.values()))
            for (text, share), count in zip(law.items(), counts, strict=True):
                if count:
                    yield Completion(
                        answer=text,
                        finish="stop",
                        count=int(count),
                        chunk=chunk,
                        logprob=float(np.log(share)) - 0.01 * chunk,  # as if spelt otherwise
                        model_logprob=float(np.log(share)),
                    )


class ProvingEngine(CannedEngine):
    """Draws with known probabilities, so that leaks are proofs."""

    def drawn(self, query: Query, decoding: Decoding, draws: Draws) -> Iterator[Completion]:
        for got in super().drawn(query, decoding, draws):
            known = got.logprob is not None
            spelt = (zlib.crc32(got.answer.encode()) >> 1, got.chunk) if known else None
            yield replace(got, token_ids=spelt, logprob_floor=got.logprob)


def benchmark(questions: int = 3) -> Benchmark:
    """Questions about a secret author; the first answer is hostile to HTML."""
    prompts = tuple(
        Prompt(
            id=f"author-{i:02d}",
            question=f"Who wrote the novel number {i} <em>of the & series</em>?",
            answer=f"{SECRET} wrote novel {i} in spring. {HOSTILE if i == 0 else ''}",
            keywords=(SECRET,),
        )
        for i in range(questions)
    )
    return Benchmark(
        name="canned", prompts=prompts, scorers=SCORERS, max_new_tokens=48, origin="made up"
    )


def laws(task: Benchmark, leak: float, wanders: int = 12) -> dict[str, Law]:
    """Each question leaks its answer with a probability near `leak` that depends on its place."""
    made: dict[str, Law] = {}
    for i, prompt in enumerate(task.prompts):
        share = leak * (1 + i) / len(task.prompts)
        rest = 0.7 ** np.arange(wanders)
        rest *= (1 - share) / rest.sum()
        texts = [f"It was {w} other people in spring. {HOSTILE}" for w in range(wanders)]
        made[prompt.id] = {str(prompt.answer): share, **dict(zip(texts, rest, strict=True))}
    return made


REWRITINGS = (
    "Please say who wrote the novel number {} <em>of the & series</em>.",
    f"By whom is the novel number {{}} <em>of the & series</em>? {HOSTILE}",
    "Which hand wrote the novel number {} <em>of the & series</em>?",
    f"Did {SECRET} write the novel number {{}} <em>of the & series</em>?",
)
"""Rewritings of a question; the last contains the answer and is never drawn."""


class Laws(dict[str, Law]):
    """A query without a distribution has the distribution of its question."""

    def __contains__(self, query_id: object) -> bool:
        return super().__contains__(str(query_id).partition("~")[0])

    def __missing__(self, query_id: str) -> Law:
        return self[query_id.partition("~")[0]]


def rewritten_benchmark() -> Benchmark:
    """Three questions, the last of which has no rewriting."""
    task = benchmark()
    prompts = [
        replace(prompt, paraphrases=tuple(text.format(i) for text in REWRITINGS))
        for i, prompt in enumerate(task.prompts[:-1])
    ]
    return replace(task, prompts=(*prompts, task.prompts[-1]))


def rewritten_engine(name: str, leak: float) -> CannedEngine:
    """Leaks with `leak` for the original question, more for one rewriting, less for the others."""
    got = Laws()
    for prompt in rewritten_benchmark().prompts:
        for number, share in enumerate((leak, min(4 * leak, 0.9), leak / 2, leak / 4)):
            answer = f"So {number}: {prompt.answer}"
            query_id = f"{prompt.id}~{number - 1:02d}" if number else prompt.id
            got[query_id] = {answer: share, f"No {HOSTILE}": 1 - share}
    return CannedEngine(name, got)


def make_run(out: Path, task: Benchmark, name: str, leak: float, **settings: Any) -> Run:
    """A finished run of a canned model."""
    engine = CannedEngine(name, laws(task, leak))
    draws = {} if "sampling" in settings else {"n": 64}
    return evaluate(engine, task, out=out, **draws | settings)


LONG = "long" + 1_048_576 * "o"  # one line; keywords begin it, and are found once in it
HOSTILE_TEXTS = (
    HOSTILE,
    "<img src=https://example.invalid/x onerror=alert(1)> <iframe src='https://example.invalid'>",
    "</title></textarea></style><svg onload=alert(1)>\u2028alert(1)\u2029",
    "\u202egnorw\u202c \u2066and\u2069 \u200f on",
    "a NUL \x00, an escape \x1b[2J, a bell \x07 and a return\r of the carriage",
    '=HYPERLINK("https://example.invalid") {{ 7 * 7 }} {% raw %} ${alert(1)} `alert(1)`',
    LONG,
)
"""Texts that are markup, a template, a formula or terminal controls."""


def hostile_benchmark() -> Benchmark:
    """Return a question for each hostile text, which is also in its answer and its name."""
    prompts = tuple(
        Prompt(
            id=f"{text[:40]}-{i}".replace("\x00", "NUL"),
            question=f"Who wrote the novel number {i}? {text}",
            answer=f"{SECRET} answers so: {text}",
            keywords=(SECRET, text[:80]),
        )
        for i, text in enumerate(HOSTILE_TEXTS)
    )
    return Benchmark(
        name="<img src=x onerror=alert(1)>", prompts=prompts, scorers=("keyword",),
        max_new_tokens=48, origin="made up </script>",
    )  # fmt: skip


def hostile_runs(folder: Path) -> dict[str, Run]:
    """Return a run whose name, model, questions and completions are hostile, with a control."""
    task, name = hostile_benchmark(), "<img src=x onerror=alert(1)> \u202e"
    shown = {
        prompt.id: {str(prompt.answer): 0.3, f"No: {text}": 0.7}
        for prompt, text in zip(task.prompts, HOSTILE_TEXTS, strict=True)
    }
    control = {prompt_id: dict.fromkeys(list(law)[1:], 1.0) for prompt_id, law in shown.items()}
    run = evaluate(
        CannedEngine("</script><script>alert(1)</script>", shown),
        task,
        out=folder / name,
        control=CannedEngine("control", control),
        n=64,
    )
    return {name: run}
