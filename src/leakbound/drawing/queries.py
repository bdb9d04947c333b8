"""Make the queries of a run: the questions, and rewritings that pass filters and selection.

One of three designs divides the outputs of a question among its queries (see
`share`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np

from leakbound.benchmarks import Benchmark
from leakbound.drawing.plans import Evaluation, arm_plans
from leakbound.drawing.sample import add_unscored, draw_arm
from leakbound.errors import InputError
from leakbound.inputs import SELECTION as PURPOSE
from leakbound.inputs import Accepted, gather, select
from leakbound.planning.plan import Prepared
from leakbound.stats import Design
from leakbound.store import (
    SELECTING,
    SELECTION,
    Arm,
    InputsRecord,
    QueryShares,
    Run,
    RunRecord,
    read_accepted,
    write_accepted,
    write_selections,
)
from leakbound.study import Rewritings
from leakbound.types import Decoding, Headway, JsonObject, Prompt, Query, Sample


def share(queries: Sequence[Query], design: Design, n: int, seed: int) -> QueryShares:
    """Divide n outputs per question among its queries.

    `allocated`: the query of each output is drawn uniformly from the question and its rewritings.
    The random choice depends on seed and prompt only, so all arms of a run have the same number of
    outputs per query. `fixed`: all queries get equal numbers; the remainder of n is not drawn.
    `fresh`: each rewriting gets one output.

    Raises InputError if n is too small for every query of a `fixed` design, or if no question has
    a rewriting for a `fresh` design.
    """
    of_prompt: dict[str, list[Query]] = {}
    for query in queries:
        of_prompt.setdefault(query.prompt_id, []).append(query)
    draws: dict[str, int] = {}
    for prompt_id, own in of_prompt.items():
        ids = [query.id for query in own]
        if design == "allocated":
            key = blake2b(f"{seed}:allocation:{prompt_id}".encode(), digest_size=16).digest()
            generator = np.random.default_rng(int.from_bytes(key, "little"))
            counts = generator.multinomial(n, np.full(len(ids), 1 / len(ids))).tolist()
            draws |= dict(zip(ids, counts, strict=True))
        elif design == "fixed" and n < len(ids):
            raise InputError(
                f"`n` must be at least the number of queries of a question, got n = {n} for "
                f"{len(ids)} queries of {prompt_id!r}. Increase `n`, use fewer queries, or use "
                "design 'allocated'."
            )
        elif design == "fixed":
            draws |= dict.fromkeys(ids, n // len(ids))
        else:
            draws |= {query.id: 1 for query in own if query.source != "original"}
    if not draws:
        raise InputError(
            "no rewriting of any question passed the filters, but design 'fresh' draws only from "
            "rewritings. For the reasons, see selection/inputs.json. Use another rewriter, or "
            "design 'allocated'."
        )
    return QueryShares(design, draws)


def inputs_record(ready: Prepared) -> InputsRecord | None:
    """Return the record of a study's rewritings; equal records mean equal queries."""
    if (rewritings := ready.study.rewritings) is None:
        return None
    settings = asdict(rewritings) | {"source": rewritings.source_name}
    settings |= {"queries": _tried(ready, rewritings), "seed": ready.study.seed}
    return InputsRecord(**settings, fingerprint=rewritings.fingerprint)


def _tried(ready: Prepared, rewritings: Rewritings) -> int:
    """Return the number of rewritings that are tried per question."""
    return ready.n if rewritings.design == "fresh" else rewritings.queries


def shares_of(run: Run, ready: Prepared) -> QueryShares | None:
    """Return the number of outputs of each query of a run; None without rewritings."""
    if (rewritings := ready.study.rewritings) is None:
        return None
    return share(run.queries, rewritings.design, ready.n, ready.study.seed)


def begin(out: Path, benchmark: Benchmark, study: JsonObject | None = None) -> Run:
    """Begin or open a run of a benchmark's questions at `out`; `study` is the study's record."""
    record = _record(benchmark, study or {})
    return Run.create(out, benchmark.prompts, [*map(Query.original, benchmark.prompts)], record)


def begin_run(evaluation: Evaluation) -> Run:
    """Begin the run of a study, or open the run that the same command began.

    Rewritings that an earlier command stored are used again. Raises MixError if the folder has
    files of a different study.
    """
    ready, out = evaluation.ready, evaluation.out
    task = ready.benchmark
    record = replace(
        _record(task, evaluation.record),
        inputs=inputs_record(ready),
        notes=(*task.notes, *ready.study.departures(task)),
        slice=evaluation.slice,
    )
    if run := Run.resumed(out, record):
        return run
    queries = [*map(Query.original, task.prompts)]
    if (rewritings := ready.study.rewritings) is not None:
        accepted = read_accepted(out, record)
        if accepted is None:
            accepted = _gathered(evaluation, rewritings)
            write_accepted(out, record, accepted)
        queries = named(task.prompts, [own.queries for own in accepted], rewritings.kind)
        if rewritings.ids:
            queries = _selected(evaluation, rewritings, record, queries)
    return Run.create(out, task.prompts, queries, record)


def _record(benchmark: Benchmark, study: JsonObject) -> RunRecord:
    return RunRecord(
        benchmark=benchmark.fingerprint(),
        scorers=benchmark.scorers,
        notes=benchmark.notes,
        study=study,
    )


def _gathered(evaluation: Evaluation, rewritings: Rewritings) -> tuple[Accepted, ...]:
    """Request rewritings from their source, and return the rewritings that pass the filters."""
    ready, task = evaluation.ready, evaluation.ready.benchmark
    loading, number = ready.study.settings.loading, len(task.prompts)
    source = rewritings.open(loading, ready.study.trusted)
    evaluation.progress(Headway("rewriting", 0, number, "questions"))
    # A list may have rewritings of questions that `limit` left out.
    prompts = task.prompts + (task.left_out if source.finite else ())
    filters = rewritings.open_filters(loading)
    accepted = gather(
        source, prompts, number=_tried(ready, rewritings), seed=ready.study.seed, filters=filters
    )
    evaluation.progress(Headway("rewriting", number, number, "questions"))
    return tuple(accepted[:number])


def _selected(
    evaluation: Evaluation, rewritings: Rewritings, record: RunRecord, queries: list[Query]
) -> list[Query]:
    """Select queries by draws at temperature 1. The draws are in a separate run without scores."""
    rewritten = {query.prompt_id for query in queries if query.source != "original"}
    tried = [query for query in queries if query.prompt_id in rewritten]
    if not tried:
        return queries
    out, seed = evaluation.out, evaluation.ready.study.seed
    first = next(iter(evaluation.arms.values()))
    plain = Decoding(max_new_tokens=first.max_new_tokens)
    engine = evaluation.engine("target")
    engine.check(tried, plain)
    run = Run.create(out / SELECTION / "ids", evaluation.ready.benchmark.prompts, tried, record)
    (plan,) = arm_plans(evaluation, {SELECTING: plain})
    arm = add_unscored(run, plan, {query.id: rewritings.ids_draws for query in tried})
    draw_arm(arm, engine, progress=evaluation.progress, purpose=PURPOSE)
    number, criterion = rewritings.ids_draws, rewritings.criterion
    chosen = select(tried, lambda *_: _answers(arm), draws=number, seed=seed, criterion=criterion)
    write_selections(out, chosen.values())
    kept = {query.id for selection in chosen.values() for query in selection.kept}
    return [query for query in queries if query.id in kept or query.prompt_id not in rewritten]


def named(prompts: Sequence[Prompt], texts: Sequence[Sequence[str]], source: str) -> list[Query]:
    """Return the query of every question, followed by the queries of its rewritings.

    A rewriting has the `prefix` of its question.
    """
    queries: dict[str, Query] = {}
    for prompt, own in zip(prompts, texts, strict=True):
        question = Query.original(prompt)
        rewritten = (
            replace(question, id=f"{prompt.id}~{number:02d}", text=text, source=source)
            for number, text in enumerate(own)
        )
        for query in (question, *rewritten):
            if query.id in queries:
                raise InputError(
                    f"a question has the id {query.id!r}, which is the id of another question's "
                    "rewriting. Do not end an id in '~' and a number."
                )
            queries[query.id] = query
    return list(queries.values())


def _answers(arm: Arm) -> list[Sample]:
    """Return the draws of every query that did not fail; these draws only select queries."""
    drawn, missing = arm.drawn_by_query(arm.parts), Counter[str]()
    for meta in arm.meta():
        missing.update(meta.missing)
    failed = arm.failures
    return [
        Sample(
            query=query,
            decoding=arm.decoding,
            completions=tuple(drawn.get(query.id, ())),
            missing=missing[query.id],
        )
        for query in arm.queries
        if query.id not in failed
    ]
