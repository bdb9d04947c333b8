"""Make a run from samples that other tools drew (`import_run`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.drawing.queries import begin
from leakbound.errors import InputError
from leakbound.formats.catalogue import read_file
from leakbound.formats.grouping import (
    Draw,
    SampledQuestion,
    SampledQuestions,
    Spool,
    group,
    join,
)
from leakbound.formats.openunlearning import part_of
from leakbound.formats.rows import SampleFile
from leakbound.registry import suggestion
from leakbound.scorers import is_unscored, make_scorer, reads_thoughts
from leakbound.scorers.spec import Logged
from leakbound.scoring.score import slug
from leakbound.stats import order as orders
from leakbound.store import (
    GREEDY,
    TARGET,
    Arm,
    ArmKey,
    ArmSpec,
    DrawnPart,
    ImportedDraws,
    Plan,
    Run,
    holding,
    sha256,
    tables,
)
from leakbound.store.plan import CHUNK
from leakbound.study import Study
from leakbound.text.counting import visible
from leakbound.types import Completion, Prompt, Sample, Scorer, Usage

Scorers = Mapping[str, Scorer]
"""The scorer for the scores of each name in the files."""

NONE = "none"
_OTHER_QUESTIONS = (
    "the samples at temperature 0 and the other samples have different questions. Import "
    "files with the same questions, or name the benchmark that has all questions."
)


@holding("import")
def import_run(
    files: Sequence[str | Path],
    *,
    out: str | Path,
    form: str | None = None,
    benchmark: str | Benchmark | None = None,
    data: str | Path | None = None,
    scores: Sequence[str] | None = None,
) -> Run:
    """Make a run at `out` from the samples in these files. leakbound draws nothing.

    Draws at temperature 0 become the arm `greedy`, and all other draws become the arm `target`. The
    bounds are about the distribution from which the tool sampled, even if the files do not contain
    all settings. The bounds assume that the number of draws was fixed in advance. A key determines
    the order in which betting bounds process the draws: the key in the files, or else a digest of
    role, questions and n. So a repeated import has the same bounds.

    JSON lines are read one row at a time, and their draws are stored on disk in `out`. Other
    formats, and a JSON array, are loaded completely.

    Args:
        files: logs of other tools, or JSON lines (see `leakbound import --help`); at least one.
        out: the run directory.
        form: "inspect", "lm-eval", "openunlearning", "garak" (or one of its probes, "garak:PROBE"),
            "promptfoo", "lighteval", "jsonl" or "csv" (None: detected from each file's name and
            content).
        benchmark: the source of questions, answers and keywords. Its questions are matched by id or
            by the model's input (None: the files are the source, and all must have the same
            questions).
        data: the folder with the files of a named `benchmark` (None: as in `load_benchmark`).
        scores: the names of the scores to import, or "none" (None: all). A score is binary if the
            format guarantees this and all values are 0 or 1. If the files contain scores without
            texts, no other scorer can be used.

    Returns:
        The run with every draw and the scores in the files, without bounds.

    Raises:
        InputError: the files are damaged or do not belong together, some draws can only be copies,
            or the name of a format, benchmark or score is unknown. Nothing is written.
        MixError: if `out` has a different run, or another command is writing into it.
        IncompleteError: if the disk is full or fails.
    """
    paths = [Path(file) for file in files]
    name = benchmark.name if isinstance(benchmark, Benchmark) else benchmark
    part = None if name is None else part_of(name)
    if not paths:
        raise InputError("there is no file to import. Name at least one file.")
    with Spool(Path(out)) as spool:
        parts = [group(read_file(path, form, part), spool, scores) for path in paths]
        scorers = _scorers(parts, scores)
        digests = {path: sha256(path) for path in paths}
        if len({*digests.values()}) < len(paths):
            named = ", ".join(f"`{path}`" for path in paths)
            raise InputError(f"two of {named} are the same file or copies. Name each file once.")
        files_read = [part.files[0] for part in parts]
        arms = _arms(parts)
        task = _own(arms, files_read) if benchmark is None else _matched(arms, benchmark, data)
        given = [
            scorers[name].name for arm in arms.values() for name in scorers if name in arm.scores
        ]
        task = replace(task, scorers=tuple(dict.fromkeys([*given, *task.scorers])))
        run = begin(Path(out), task, {} if task.loaded is None else Study(task).to_dict())
        for key, sampled in arms.items():
            own = [digests[file.path] for file in sampled.files]
            arm = run.add_arm(key, _spec(sampled, own, _order(run, key, sampled)))
            _store(arm, sampled, spool, scorers)
    return run


def _scorers(parts: Sequence[SampledQuestions], wanted: Sequence[str] | None) -> Scorers:
    """Return the scorers of the scores to import, by the name of the score.

    A score in another tool's log becomes the scorer `logged:by=NAME`. The scorer is binary if the
    format of every log guarantees values of 0 or 1, and no log has another value. Otherwise its
    scores are in [0, 1]. Scores without texts have the names of their original scorers. A draw
    without a score is undecided.
    """
    names = list(dict.fromkeys(name for part in parts for name in part.scores))
    chosen = names if wanted is None else [name for name in wanted if name != NONE]
    if unknown := next((name for name in chosen if name not in names), None):
        raise InputError(f"the files have no score {unknown!r}. {suggestion(unknown, names)}")
    scorers: dict[str, Scorer] = {}
    for name in chosen:
        scored = [part for part in parts if name in part.scores]
        zero_or_one = all(part.scores[name] for part in scored)
        if all(part.texts for part in scored):
            binary = zero_or_one and all(part.files[0].binary(name) for part in scored)
            plain = name.replace(">=", "_").replace(",", "_").replace("=", "_")
            scorers[name] = Logged(by=plain, values="binary" if binary else "unit")
            continue
        scorers[name] = make_scorer(name)
        if scorers[name].binary and not zero_or_one:
            raise InputError(
                f"scores by {name!r} must be 0 or 1, but `{scored[0].path}` has other values. "
                "Export the scores again."
            )
    return scorers


def _arms(parts: Sequence[SampledQuestions]) -> dict[ArmKey, SampledQuestions]:
    """Return the joined files of each arm. With several tasks, ids begin with the task's name."""
    sampled = [part for part in parts if not part.decoding.greedy]
    greedy = [part for part in parts if part.decoding.greedy]
    if not sampled:
        raise InputError(
            f"`{parts[0].path}` has only greedy samples, one per question. Import samples drawn "
            "at a temperature above 0, with or without this file."
        )
    if len({part.files[0].task for part in sampled}) > 1:
        for part in parts:
            for question in part.questions.values():
                question.id = f"{part.files[0].task}/{question.id}"
            part.questions = {question.id: question for question in part.questions.values()}
    return {key: join(group) for key, group in ((TARGET, sampled), (GREEDY, greedy)) if group}


def _own(arms: Mapping[ArmKey, SampledQuestions], files: Sequence[SampleFile]) -> Benchmark:
    """Return the questions in the files as a benchmark.

    The first target is the answer. If there are several targets, each target is a keyword.
    """
    texts, *others = ({q.id: q.text for q in arm.questions.values()} for arm in arms.values())
    if any(other != texts for other in others):
        raise InputError(_OTHER_QUESTIONS)
    prompts = tuple(
        Prompt(
            id=q.id,
            question=q.text,
            answer=q.answers[0] if q.answers else None,
            keywords=q.answers if q.answers[1:] else (),
        )
        for q in arms[TARGET].questions.values()
    )
    return Benchmark(
        name=" and ".join(dict.fromkeys(file.task for file in files)),
        prompts=prompts,
        scorers=("rouge-l-recall",) if all(prompt.answer for prompt in prompts) else (),
        max_new_tokens=200,
        origin=", ".join(dict.fromkeys(file.tool for file in files)),
    )


def _matched(
    arms: Mapping[ArmKey, SampledQuestions], benchmark: str | Benchmark, data: str | Path | None
) -> Benchmark:
    """Return the benchmark with only the arms' questions; the questions get the benchmark's ids."""
    task = load_benchmark(benchmark, data=data) if isinstance(benchmark, str) else benchmark
    for arm in arms.values():
        matched = {_match(question, task.prompts): question for question in arm.questions.values()}
        if len(matched) < len(arm.questions):
            raise InputError(
                f"two samples with different ids are about the same question of benchmark "
                f"{task.name!r}. Import them as two runs, or use the same id for both."
            )
        arm.questions = matched
    ids, *others = ({*arm.questions} for arm in arms.values())
    if any(other != ids for other in others):
        raise InputError(_OTHER_QUESTIONS)
    kept = tuple(prompt for prompt in task.prompts if prompt.id in ids)
    dropped = (prompt for prompt in task.prompts if prompt.id not in ids)
    return replace(task, prompts=kept, left_out=(*dropped, *task.left_out))


def _match(q: SampledQuestion, prompts: Sequence[Prompt]) -> str:
    """Return the id of the prompt that matches a question by id, or else by text."""
    if any(prompt.id == q.id for prompt in prompts):
        return q.id
    exact = [prompt.id for prompt in prompts if prompt.question.strip() == q.text.strip()]
    ids = exact or [prompt.id for prompt in prompts if prompt.question.strip() in q.text]
    if len(ids) != 1:
        raise InputError(
            f"question {q.id!r} must contain the text of one question of the benchmark, or have "
            f"its id, got {len(ids)} matches: {q.text[:60]!r}. Name the benchmark that has this "
            "question, or omit --benchmark to use the questions of the file."
        )
    return ids[0]


def _order(run: Run, key: ArmKey, sampled: SampledQuestions) -> int:
    """Return the key of the order of the draws. The key must not depend on the draws.

    It is the key of the run that made the draws, or else the key of an earlier import into this
    run, or else a digest of facts that were fixed before the draws.
    """
    if "order" in sampled.stated:
        return int(str(sampled.stated["order"]))
    arm = run.arm(key)
    if arm is not None and isinstance(arm.spec.draws, ImportedDraws):
        return arm.spec.draws.order
    return orders.order_key(
        {
            "role": str(key),
            "questions": {query.id: query.text.strip() for query in run.questions},
            "n": sampled.n,
        }
    )


def _spec(sampled: SampledQuestions, digests: Sequence[str], order: int) -> ArmSpec:
    """Return the spec of an imported arm. It names the tool instead of an engine."""
    decoding, tools = sampled.decoding, dict.fromkeys(file.tool for file in sampled.files)
    settings = [f"{name} {value}" for name, value in sampled.others.items() if name != "order"]
    return ArmSpec(
        model=sampled.model,
        fingerprint={
            "engine": "imported",
            "sha256": {f"of file {i}": digest for i, digest in enumerate(digests, start=1)},
        },
        decoding=decoding,
        plan=Plan.of(sampled.n),
        seed=None,
        draws=ImportedDraws(
            order=order,
            sampled_by=", ".join([*tools, decoding.name, *settings]),
            in_doubt="; ".join(sampled.notes),
            seed=str(sampled.stated.get("seed", "unknown")),
            texts=sampled.texts,
            claim=sampled.files[0].claim,
        ),
    )


def _store(arm: Arm, sampled: SampledQuestions, spool: Spool, scorers: Scorers) -> None:
    """Store the draws of the files with their scores."""
    queries, notes = {query.id: query for query in arm.queries}, [*sampled.notes]
    if missing := sum(question.missing for question in sampled.questions.values()):
        total = sampled.n * len(queries)
        notes.append(f"{missing:,} of {total:,} draws failed and count as missing")
    to_draw = [*arm.parts_to_draw()]
    scores: dict[str, list[list[float | None]]] = {name: [] for name in scorers}
    for part in arm.parts:
        samples: list[Sample] = []
        draws: list[Draw] = []
        for query_id in part.query_ids:
            completions: list[Completion] = []
            missing = 0
            for chunk, size in enumerate(part.sizes, part.first_chunk):
                first = chunk * CHUNK
                counts = sampled.questions[query_id].distinct(spool, first, first + size)
                for draw, count in counts.items():
                    if draw is None:
                        missing += count
                        continue
                    completions.append(Completion.of(draw.output, count=count, chunk=chunk))
                    draws.append(draw)
            samples.append(
                Sample(
                    query=queries[query_id],
                    decoding=arm.decoding,
                    completions=tuple(completions),
                    missing=missing,
                )
            )
        usage = Usage(draws=part.draws, notes=notes)
        drawn = DrawnPart.of(part.query_ids, samples, usage, {})
        if part in to_draw:
            arm.write_part(part, drawn)
        absent = tables.missing(drawn.completions, arm.decoding).to_pylist()
        for name, scorer in scorers.items():
            scores[name].append([*map(partial(_score, name, scorer), draws, absent)])
    for name, scorer in scorers.items():
        given = partial(map, lambda of_part, _: of_part, scores[name])
        arm.scored.write(scorer.name, slug(scorer), given)


def _score(name: str, scorer: Scorer, draw: Draw, absent: bool) -> float | None:
    """Return the score of a draw in the file; None if a part is missing and no leak is visible."""
    score = dict(draw.scores).get(name)
    seen = not absent or (reads_thoughts(scorer) and visible(draw.output.thought))
    unscored = is_unscored(scorer, missing=absent, hidden=draw.output.hidden)
    return None if unscored and not (seen and score == 1) else score
