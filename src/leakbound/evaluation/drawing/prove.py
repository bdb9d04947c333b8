"""Rare leaks of a finished run: what a search finds beyond its draws, by probabilities alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from leakbound.errors import InputError
from leakbound.evaluation.drawing.explore import TRIED, ranges, require_explores
from leakbound.evaluation.scoring.checks import require_sampled
from leakbound.evaluation.scoring.score import prompts_by_query, slug
from leakbound.scorers import check_bounds, score_texts
from leakbound.store import Arm, ImportedDraws, Run
from leakbound.types import (
    Failure,
    Generate,
    Measures,
    Probes,
    Progress,
    Prompt,
    Proves,
    Proving,
    Query,
    Scorer,
    silent,
)

_LEADS = 64  # texts of a question from which the search goes out, beside the true answer


def arms_to_prove(run: Run) -> list[Arm]:
    """The arms of the run's own model that are sampled in the questions' own words."""
    arms = [
        arm
        for arm in run.arms.values()
        if arm.key.own_words and not arm.decoding.greedy and not arm.key.is_control
    ]
    for arm in arms:
        if isinstance(arm.spec.draws, ImportedDraws):
            raise InputError(
                f"{arm.place} was imported, and no model of it is known here. Evaluate the model "
                "with leakbound first."
            )
    if not arms:
        raise InputError(
            f"`{run.path}` has no arm that is sampled: its greedy answers alone leave nothing "
            "to prove. Evaluate the model at a temperature above 0."
        )
    return arms


def require_proves(engine: Generate, arm: Arm, run: Run) -> Proves:
    """The engine as one that finds rare leaks of this arm; it is the model that was drawn from.

    InputError where it cannot, MixError where it is another.
    """
    if isinstance(engine, Measures):
        engine.measure([query for query in arm.queries if query.id not in arm.failures])
    probe = engine.probe if isinstance(engine, Probes) else None
    run.add_arm(arm.key, replace(arm.spec, fingerprint=engine.fingerprint, probe=probe))
    require_explores(engine, arm.name, arm.decoding)
    if not isinstance(engine, Proves):
        raise InputError(
            f"the engine {type(engine).__name__} finds no rare leaks. Use a transformers model."
        )
    return engine


def prove_arm(
    arm: Arm,
    engine: Proves,
    scorer: Scorer,
    forwards: int,
    known: Mapping[str, Counter[str]],
    progress: Progress = silent,
) -> list[Failure]:
    """Search every question of an arm for leaks and store what is found; who failed, and why.

    `known`: texts by prompt id that models said, with how often; those that leak are leads.
    """
    failed, prompts = arm.failures, prompts_by_query(arm)
    asked = [
        (query, list(_leads(query, prompts[query.id], scorer, known)))
        for query in arm.queries
        if query.id not in failed
    ]
    found: list[Proving] = []
    failures: list[Failure] = []
    phase, settle = f"proving {arm.name}", ranges(scorer, prompts)
    progress(phase, 0, len(asked), "questions")
    for done, one in enumerate(engine.prove(asked, arm.decoding, forwards, settle), start=1):
        if isinstance(one, Failure):
            failures.append(one)
        else:
            texts = [event.text for event in one.events if event.ended]
            check_bounds(scorer, texts[:TRIED], prompts[one.query.id])
            found.append(one)
        progress(phase, done, len(asked), "questions")
    arm.proofs.write(slug(scorer), found, forwards)
    return failures


def said_by(run: Run, others: Sequence[Run]) -> dict[str, Counter[str]]:
    """By prompt id what any arm of these runs says, and how often; `others` of equal prompts alone.

    InputError where one of the others asked none of the run's prompts.
    """
    found: dict[str, Counter[str]] = {}
    ours = {prompt.id: (prompt.question, prompt.answer) for prompt in run.prompts}
    for each in (run, *others):
        theirs = {prompt.id: (prompt.question, prompt.answer) for prompt in each.prompts}
        shared = {name for name, asked in ours.items() if theirs.get(name) == asked}
        if not shared:
            raise InputError(
                f"`{each.path}` asked none of the questions of `{run.path}`, so no answer of it is "
                "one to these. Name a run on the same benchmark."
            )
        require_sampled(each)
        for arm in each.arms.values():
            prompt_of = {query.id: query.prompt_id for query in arm.queries}
            for query_id, text, count in _texts(arm) if arm.texts else ():
                if (name := prompt_of[query_id]) in shared:
                    found.setdefault(name, Counter())[text] += count
    return found


def _texts(arm: Arm) -> Iterator[tuple[str, str, int]]:
    for part in arm.parts:
        table = arm.completions(part)
        columns = (table[name].to_pylist() for name in ("query_id", "text", "count"))
        yield from zip(*columns, strict=True)
    for table in arm.masses.tables():
        ended = table.filter(table["ended"])
        columns = (ended[name].to_pylist() for name in ("query_id", "text"))
        yield from ((query_id, text, 1) for query_id, text in zip(*columns, strict=True))


def _leads(
    query: Query, prompt: Prompt, scorer: Scorer, known: Mapping[str, Counter[str]]
) -> Iterator[str]:
    """The true answer, then what leaks of the known texts, the most frequent first."""
    said = known.get(query.prompt_id, Counter())
    texts = [text for text, _ in sorted(said.items(), key=lambda pair: (-pair[1], pair[0]))]
    answer = [prompt.answer] if prompt.answer and prompt.answer.strip() else []
    every = list(dict.fromkeys([*answer, *texts]))
    scores = score_texts(scorer, every, prompt)
    leaking = [text for text, score in zip(every, scores, strict=True) if score]
    yield from leaking[: _LEADS + 1]
