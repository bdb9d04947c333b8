"""Other tools' samples as a run: from then on it is scored, bounded and reported like any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from residua.benchmarks import Benchmark, load_benchmark
from residua.errors import InputError
from residua.evaluation.sample import GREEDY, TARGET, begin
from residua.formats.catalogue import read_logs
from residua.formats.imported import Asked, Draw, Log
from residua.formats.joined import Imported, join
from residua.store import Arm, Part, Plan, Run, sha256
from residua.types import Completion, Failure, Prompt, Query, Sample, Usage


def import_samples(
    files: Sequence[str | Path],
    *,
    out: str | Path,
    form: str | None = None,
    benchmark: str | Benchmark | None = None,
    data: str | Path | None = None,
) -> Run:
    """Make a run at `out` of the samples in these files; residua draws nothing.

    What was drawn at temperature 0 becomes the arm `greedy`, the rest the arm `target`. Bounds of
    it are about the distribution as it was sampled, whatever of that is unknown, and take the
    number of draws as fixed before any was seen. Questions, answers and keywords are those of
    `benchmark`, matched by id or by the text that was put to the model; without one, the files'.

    Raises InputError for files that are not what they must be, that do not belong together, or
    whose draws can only be copies; nothing is written then.
    """
    paths = [Path(file) for file in files]
    logs = read_logs(paths, form)
    digests = _digests(paths)
    drawn_by = {
        TARGET: [log for log in logs if not log.decoding.greedy],
        GREEDY: [log for log in logs if log.decoding.greedy],
    }
    if not drawn_by[TARGET]:
        raise InputError(
            f"`{paths[0]}` was drawn greedily, and one answer says nothing about a distribution. "
            "Import samples drawn at a temperature above 0; greedy ones may stand beside them."
        )
    arms = {name: join(mine) for name, mine in drawn_by.items() if mine}
    task, prompt_ids = _prompted(_same_questions(arms), logs, benchmark, data)
    run = begin(Path(out), task, {"benchmark": benchmark} if isinstance(benchmark, str) else {})
    for name, drawn in arms.items():
        spec = _spec(drawn, [digests[log.path] for log in drawn_by[name]])
        _store(run.add_arm(name, spec), drawn, prompt_ids)
    return run


def _store(arm: Arm, drawn: Imported, prompt_ids: Mapping[str, str]) -> None:
    draws = {prompt_ids[one.id]: one.draws for one in drawn.asked}
    for part in arm.missing_parts():
        arm.write_part(part, _samples(arm, part, draws), _usage(part, drawn), {})


def _digests(paths: Sequence[Path]) -> dict[Path, str]:
    """The SHA-256 of each file; InputError where two are the same."""
    digests = {path: sha256(path) for path in paths}
    twice = [path for path in paths if list(digests.values()).count(digests[path]) > 1]
    if twice or len(digests) < len(paths):
        raise InputError(
            f"`{(twice or paths)[0]}` was named twice, or a copy of it. Its draws count once: name "
            "each file once."
        )
    return digests


def _same_questions(arms: Mapping[str, Imported]) -> tuple[Asked, ...]:
    """The questions of the target; InputError where the greedy answers are to others."""
    asked = arms[TARGET].asked
    texts = {one.id: one.text for one in asked}
    for drawn in arms.values():
        if texts != {one.id: one.text for one in drawn.asked}:
            raise InputError(
                "the samples drawn at temperature 0 are about other questions than the rest. "
                "Import files of the same questions."
            )
    return asked


def _prompted(
    asked: Sequence[Asked],
    logs: Sequence[Log],
    benchmark: str | Benchmark | None,
    data: str | Path | None,
) -> tuple[Benchmark, dict[str, str]]:
    """What the questions are evaluated as, and the id of each one's prompt."""
    if benchmark is not None:
        task = load_benchmark(benchmark, data=data) if isinstance(benchmark, str) else benchmark
        matched = {one.id: _match(one, task.prompts) for one in asked}
        if len(set(matched.values())) < len(matched):
            raise InputError(
                f"two of the samples are about the same question of benchmark {task.name!r}. "
                "Import them as two runs, or give both the same id."
            )
        ids = set(matched.values())
        kept = tuple(prompt for prompt in task.prompts if prompt.id in ids)
        rest = tuple(prompt for prompt in task.prompts if prompt.id not in ids)
        return replace(task, prompts=kept, left_out=(*rest, *task.left_out)), matched
    tasks = dict.fromkeys(log.task for log in logs)
    prompts = tuple(_prompt(one) for one in asked)
    return Benchmark(
        name=" and ".join(tasks),
        prompts=prompts,
        scorers=("rouge-l-recall",) if all(prompt.answer for prompt in prompts) else (),
        max_new_tokens=200,
        origin=", ".join(dict.fromkeys(log.tool for log in logs)),
    ), {one.id: one.id for one in asked}


def _match(one: Asked, prompts: Sequence[Prompt]) -> str:
    """The id of the prompt that a question is: by its id, else by its text."""
    if any(prompt.id == one.id for prompt in prompts):
        return one.id
    exact = [prompt.id for prompt in prompts if prompt.question.strip() == one.text.strip()]
    found = exact or [prompt.id for prompt in prompts if prompt.question.strip() in one.text]
    if len(found) != 1:
        raise InputError(
            f"question {one.id!r} must hold the text of one question of the benchmark, or have "
            f"its id, got {len(found)} that fit: {one.text[:60]!r}. Name the benchmark that was "
            "asked, or leave it out to take the questions from the file."
        )
    return found[0]


def _prompt(one: Asked) -> Prompt:
    """The first target is the answer; of several, each is a keyword."""
    return Prompt(
        id=one.id,
        question=one.text,
        answer=next(iter(one.answers), None),
        keywords=one.answers if len(one.answers) > 1 else (),
    )


def _spec(drawn: Imported, digests: Sequence[str]) -> dict[str, Any]:
    """What the arm is; whoever drew it stands in the place of an engine."""
    others = "".join(f", {name} {value}" for name, value in drawn.stated.items())
    return {
        "model": drawn.model,
        "fingerprint": {
            "engine": "imported",
            "as sampled by": f"{drawn.sampled_by}, {drawn.decoding.name}{others}",
            **({"in doubt": "; ".join(drawn.notes)} if drawn.notes else {}),
            "sha256": {f"of file {i}": digest for i, digest in enumerate(digests, start=1)},
        },
        "decoding": drawn.decoding.to_dict(),
        "seed": drawn.stated.get("seed", "unknown"),
        "plan": Plan.of(drawn.n).to_dict(),
        "stopping": "fixed n",
        "looks": [{"n": drawn.n, "alpha": "all"}],
        "machine": {},
    }


def _samples(
    arm: Arm, part: Part, draws: Mapping[str, Sequence[Draw | None]]
) -> list[Sample | Failure]:
    """Distinct outputs with counts; a draw that failed is missing, never left out."""
    queries: dict[str, Query] = {query.id: query for query in arm.queries}
    made: list[Sample | Failure] = []
    for query_id in part.query_ids:
        completions, missing = [], 0
        for chunk, size in enumerate(part.sizes, part.first_chunk):
            start = chunk * arm.plan.chunk
            counts = Counter(draws[query_id][start : start + size])
            missing += counts.pop(None, 0)
            completions += [
                Completion(
                    text=draw.text,
                    token_ids=None,
                    count=count,
                    chunk=chunk,
                    finish_reason=draw.finish_reason,
                )
                for draw, count in counts.items()
                if draw is not None
            ]
        sample = Sample(
            query=queries[query_id],
            decoding=arm.decoding,
            completions=tuple(completions),
            missing=missing,
        )
        made.append(sample)
    return made


def _usage(part: Part, drawn: Imported) -> Usage:
    """What the tables say of the draws; what they cost is not known."""
    missing = sum(draw is None for one in drawn.asked for draw in one.draws)
    total = drawn.n * len(drawn.asked)
    notes = [f"{missing:,} of {total:,} draws failed and count as missing"] if missing else []
    several = sum(len(one.answers) > 1 for one in drawn.asked)
    if several:
        notes.append(
            f"questions with several targets: {several}; the first is taken as the answer, all as "
            "keywords"
        )
    return Usage(draws=part.draws, notes=[*drawn.notes, *notes])
