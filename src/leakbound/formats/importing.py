"""Other tools' samples as a run: from then on it is scored, bounded and reported like any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.errors import InputError
from leakbound.evaluation.drawing.queries import begin
from leakbound.evaluation.scoring.score import slug
from leakbound.formats.catalogue import read_logs, take_scores
from leakbound.formats.imported import Draw, ImportedLog, ImportedQuestion
from leakbound.formats.joined import Imported, join
from leakbound.formats.openunlearning import asked_by
from leakbound.formats.spool import Spool
from leakbound.scorers import is_unscored, make_scorer, reads_thoughts
from leakbound.stats import order as orders
from leakbound.store import (
    GREEDY,
    TARGET,
    Arm,
    ArmKey,
    ArmSpec,
    DrawnPart,
    ImportedDraws,
    Part,
    Plan,
    Run,
    holding,
    sha256,
    tables,
)
from leakbound.store.plan import Cut
from leakbound.study import Study
from leakbound.text.counting import visible
from leakbound.types import Completion, Prompt, Query, Sample, Scorer, Usage

_OTHER_QUESTIONS = (
    "the samples drawn at temperature 0 are about other questions than the rest. Import files of "
    "the same questions, or name the benchmark that both were asked."
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
    """Make a run at `out` of the samples in these files; leakbound draws nothing.

    What was drawn at temperature 0 becomes the arm `greedy`, the rest the arm `target`. Bounds of
    it are about the distribution as it was sampled, whatever of that is unknown, and take the
    number of draws as fixed before any was seen. Bets meet the draws in an order of their own: the
    key is what the files say of the run that drew them, else a digest of questions, model, decoding
    and n: importing a file again gives the same bounds. Another name of the model gives others, and
    trying names until an order pleases voids them.

    JSON lines are read a row at a time, and their draws lie in a file without a name in `out`
    meanwhile; what other formats have, and JSON lines that are one array, is held.

    Args:
        files: logs of other tools, or JSON lines, see `leakbound import --help`; at least one.
        out: the run directory.
        form: "inspect", "lm-eval", "openunlearning", "garak" (or one of its probes, "garak:PROBE"),
            "promptfoo", "lighteval", "jsonl" or "csv"; None: what each file looks like.
        benchmark: whose questions, answers and keywords are taken, matched by id or by the text
            that was put to the model; None: the files', which must then all have the same.
        data: folder of the files of a `benchmark` that is named; None: as `load_benchmark` looks.
        scores: names of the files' scores that are taken, "none" for no one; None: all. They are
            stored as scores of the run, binary where the files say or show so. Where the files
            hold scores without texts nothing else can be scored.

    Returns:
        The run, with every draw stored; it is neither scored further nor bounded yet.

    Raises:
        InputError: files that are not what they must be, that do not belong together, or whose
            draws can only be copies; names of formats, benchmarks or scores that there are not.
            Nothing is written then.
        MixError: an `out` that holds another run, or that another command holds.
        IncompleteError: a disk that is full or fails.
    """
    paths = [Path(file) for file in files]
    with Spool(Path(out)) as spool:
        logs = take_scores(read_logs(paths, spool, form, _part(benchmark)), scores)
        return _made(logs, Path(out), benchmark, data)


def _made(
    logs: Sequence[ImportedLog],
    out: Path,
    benchmark: str | Benchmark | None,
    data: str | Path | None,
) -> Run:
    """The run of these logs."""
    paths = [log.path for log in logs]
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
    arms = {key: join(group) for key, group in drawn_by.items() if group}
    if benchmark is None:
        task, prompt_ids = _own_questions(arms, logs)
    else:
        task = load_benchmark(benchmark, data=data) if isinstance(benchmark, str) else benchmark
        prompt_ids = {key: _matched(drawn.asked, task) for key, drawn in arms.items()}
        task = _only(task, *map(set, map(dict.values, prompt_ids.values())))
    scorers = list(dict.fromkeys(name for drawn in arms.values() for name in drawn.scorers))
    task = replace(task, scorers=tuple(dict.fromkeys([*scorers, *task.scorers])))
    run = begin(out, task, {} if task.loaded is None else Study(task).to_dict())
    for key, drawn in arms.items():
        spec = _spec(drawn, [digests[log.path] for log in drawn_by[key]], _order(run, key, drawn))
        _store(run.add_arm(key, spec), drawn, prompt_ids[key], scorers)
    return run


def _store(
    arm: Arm, drawn: Imported, prompt_ids: Mapping[str, str], scorers: Sequence[str]
) -> None:
    """The draws, and what they were given by these scorers."""
    draws = {prompt_ids[question.id]: question.draws for question in drawn.asked}
    queries = {query.id: query for query in arm.queries}
    notes = _notes(drawn)
    for part in arm.parts_to_draw():
        results = [_sample(arm, part, queries[id], draws[id]) for id in part.query_ids]
        usage = Usage(draws=part.draws, notes=notes)
        arm.write_part(part, DrawnPart.of(part.query_ids, results, usage, {}))
    for spec in scorers:
        scorer = make_scorer(spec)
        score = partial(_scores, arm, draws, scorer)
        arm.scored.write(scorer.name, slug(scorer), partial(map, score))


def _scores(
    arm: Arm, draws: Mapping[str, Sequence[Draw | None]], scorer: Scorer, table: pa.Table
) -> list[float | None]:
    """The file's scores for each row of a table of the arm's completions.

    Whatever the file gives a missing answer, it has no score; only a visible part can be a leak.
    """
    columns = (table[column].to_pylist() for column in ("query_id", "chunk"))
    rows: dict[tuple[str, int], Iterator[Draw]] = {}
    scores: list[float | None] = []
    missing = tables.missing(table, arm.decoding).to_pylist()
    for query_id, chunk, absent in zip(*columns, missing, strict=True):
        if (query_id, chunk) not in rows:
            rows[query_id, chunk] = iter(_distinct(arm, draws[query_id], chunk))
        draw = next(rows[query_id, chunk])
        score = dict(draw.scores).get(scorer.name)
        seen = not absent or (reads_thoughts(scorer) and visible(draw.output.thought))
        unscored = is_unscored(scorer, missing=absent, hidden=draw.output.hidden)
        scores.append(None if unscored and not (seen and score == 1) else score)
    return scores


def _distinct(arm: Arm, draws: Sequence[Draw | None], chunk: int) -> Counter[Draw]:
    """The distinct draws of a chunk with their counts, in the order in which they came."""
    size = arm.plan.chunk
    return Counter(draw for draw in draws[chunk * size : (chunk + 1) * size] if draw is not None)


def _part(benchmark: str | Benchmark | None) -> str | None:
    """The part of OpenUnlearning's log whose answers are those to the benchmark's questions."""
    if benchmark is None:
        return None
    return asked_by(benchmark if isinstance(benchmark, str) else benchmark.name)


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


def _own_questions(
    arms: Mapping[ArmKey, Imported], logs: Sequence[ImportedLog]
) -> tuple[Benchmark, dict[ArmKey, dict[str, str]]]:
    """The files' own questions as a benchmark, and their ids, by arm; the same for every arm."""
    questions, *others = (drawn.asked for drawn in arms.values())
    texts = {q.id: q.text for q in questions}
    if any(texts != {q.id: q.text for q in other} for other in others):
        raise InputError(_OTHER_QUESTIONS)
    prompts = tuple(_prompt(q) for q in questions)
    task = Benchmark(
        name=" and ".join(dict.fromkeys(log.task for log in logs)),
        prompts=prompts,
        scorers=("rouge-l-recall",) if all(prompt.answer for prompt in prompts) else (),
        max_new_tokens=200,
        origin=", ".join(dict.fromkeys(log.tool for log in logs)),
    )
    return task, {key: {id: id for id in texts} for key in arms}


def _matched(questions: Sequence[ImportedQuestion], task: Benchmark) -> dict[str, str]:
    """The id of the prompt that each question is, by its own."""
    matched = {q.id: _match(q, task.prompts) for q in questions}
    if len(set(matched.values())) < len(matched):
        raise InputError(
            f"two of the samples are about the same question of benchmark {task.name!r}. "
            "Import them as two runs, or give both the same id."
        )
    return matched


def _only(task: Benchmark, ids: set[str], *others: set[str]) -> Benchmark:
    """The benchmark with these prompts alone; InputError where another arm was asked others."""
    if any(other != ids for other in others):
        raise InputError(_OTHER_QUESTIONS)
    kept = tuple(prompt for prompt in task.prompts if prompt.id in ids)
    dropped = (prompt for prompt in task.prompts if prompt.id not in ids)
    return replace(task, prompts=kept, left_out=(*dropped, *task.left_out))


def _match(q: ImportedQuestion, prompts: Sequence[Prompt]) -> str:
    """The id of the prompt that a question is: by its id, else by its text."""
    if any(prompt.id == q.id for prompt in prompts):
        return q.id
    exact = [prompt.id for prompt in prompts if prompt.question.strip() == q.text.strip()]
    ids = exact or [prompt.id for prompt in prompts if prompt.question.strip() in q.text]
    if len(ids) != 1:
        raise InputError(
            f"question {q.id!r} must hold the text of one question of the benchmark, or have "
            f"its id, got {len(ids)} that fit: {q.text[:60]!r}. Name the benchmark that was "
            "asked, or leave it out to take the questions from the file."
        )
    return ids[0]


def _prompt(q: ImportedQuestion) -> Prompt:
    """The first target is the answer; of several, each is a keyword."""
    answer, keywords = next(iter(q.answers), None), q.answers if q.answers[1:] else ()
    return Prompt(id=q.id, question=q.text, answer=answer, keywords=keywords)


def _order(run: Run, key: ArmKey, drawn: Imported) -> int:
    """The key of the order of the draws, which owes nothing to them: their file's digest would.

    That of the run that drew them; else that of an earlier import into this run; else a digest of
    what was fixed before they were made, so that to import a file again gives the same bounds.
    Another name of the model gives another order: whoever tries names until one pleases has chosen
    after looking, as with any key.
    """
    if "order" in drawn.stated:
        return int(str(drawn.stated["order"]))
    arm = run.arm(key)
    if arm is not None and isinstance(arm.spec.draws, ImportedDraws):
        return arm.spec.draws.order
    return orders.order_key(
        {
            "role": str(key),
            "benchmark": run.record.benchmark.sha256,
            "model": drawn.model,
            "decoding": drawn.decoding.to_dict(),
            "n": drawn.n,
        }
    )


def _spec(drawn: Imported, digests: Sequence[str], order: int) -> ArmSpec:
    """The spec of the arm; whoever drew it stands in the place of an engine."""
    others = "".join(f", {name} {value}" for name, value in drawn.stated.items() if name != "order")
    return ArmSpec(
        model=drawn.model,
        fingerprint={
            "engine": "imported",
            "sha256": {f"of file {i}": digest for i, digest in enumerate(digests, start=1)},
        },
        decoding=drawn.decoding,
        plan=Plan.of(drawn.n),
        cut=Cut.whole(),
        seed=None,
        draws=ImportedDraws(
            order=order,
            sampled_by=f"{drawn.sampled_by}, {drawn.decoding.name}{others}",
            in_doubt="; ".join(drawn.notes),
            seed=str(drawn.stated.get("seed", "unknown")),
            texts=drawn.texts,
            claim=drawn.claim,
        ),
    )


def _sample(arm: Arm, part: Part, query: Query, draws: Sequence[Draw | None]) -> Sample:
    """Distinct outputs with counts; a draw that failed is missing, never left out."""
    completions: list[Completion] = []
    missing = 0
    for chunk, size in enumerate(part.sizes, part.first_chunk):
        counts = _distinct(arm, draws, chunk)
        made = len(draws[chunk * arm.plan.chunk :][:size])  # fewer, where a claim ended them
        missing += made - counts.total()
        completions += [
            Completion.of(draw.output, count=count, chunk=chunk) for draw, count in counts.items()
        ]
    return Sample(
        query=query, decoding=arm.decoding, completions=tuple(completions), missing=missing
    )


def _notes(drawn: Imported) -> list[str]:
    """Notes on the draws for the tables; what they cost is not known."""
    missing = sum(draw is None for question in drawn.asked for draw in question.draws)
    total = drawn.n * len(drawn.asked)
    notes = [f"{missing:,} of {total:,} draws failed and count as missing"] if missing else []
    if several := sum(len(question.answers) > 1 for question in drawn.asked):
        notes.append(
            f"questions with several targets: {several}; the first is taken as the answer, all as "
            "keywords"
        )
    return [*drawn.notes, *notes]
