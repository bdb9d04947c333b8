"""Rare leaks of a finished run: what a search finds beyond its draws, by probabilities alone.

It begins with texts that leak, of all that models said to a question, in whatever run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from leakbound.drawing.explore import (
    PROVING,
    SEARCHING,
    ranges,
    require_explores,
    try_bounds,
    why_unknown,
)
from leakbound.drawing.sample import finished_run
from leakbound.errors import InputError
from leakbound.planning.plan import ScoringCrew, opener_at
from leakbound.scorers import base_of, score_texts
from leakbound.scoring.checks import require_sampled
from leakbound.scoring.score import prompts_by_query, slug, texts_of
from leakbound.store import Arm, ArmKey, ImportedDraws, Run, Searched
from leakbound.study import Prove
from leakbound.types import (
    Decoding,
    Failure,
    Generate,
    Headway,
    Measures,
    Opener,
    Probes,
    Progress,
    Prompt,
    Proves,
    Proving,
    Query,
    Scorer,
    Spreads,
    silent,
)

_NAMED = 3  # questions in a note
_LEADS = 64  # texts of a question from which the search goes out, beside its answers


def is_proved(key: ArmKey, decoding: Decoding) -> bool:
    """True for arms of the run's own model that are sampled in the questions' own words."""
    return key.own_words and not decoding.greedy and not key.is_control


def arms_to_prove(run: Run) -> list[Arm]:
    """The arms of the run's own model that are sampled in the questions' own words."""
    arms = [arm for arm in run.arms.values() if is_proved(arm.key, arm.decoding)]
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
        failed = arm.failures
        engine.measure([query for query in arm.queries if query.id not in failed])
    probe = engine.probe if isinstance(engine, Probes) else None
    run.add_arm(arm.key, replace(arm.spec, fingerprint=engine.fingerprint, probe=probe))
    return require_prover(engine, arm.name, arm.decoding)


def require_prover(engine: Generate, arm: str, decoding: Decoding) -> Proves:
    """The engine as one that finds rare leaks under this decoding, or InputError."""
    require_explores(engine, arm, decoding, PROVING)
    if not isinstance(engine, Proves):
        raise InputError(
            f"the engine {type(engine).__name__} finds no rare leaks. Use a transformers model."
        )
    return engine


def why_unproved(engine: Generate, decodings: Iterable[Decoding], scorer: Scorer) -> str:
    """Why a search for inputs proves nothing under these decodings; empty where it does.

    A scorer must tell leaks by prefixes: one that does not, such as a judge, would be asked about
    every output that is looked at.
    """
    if not tells_prefixes(scorer):
        return f"{scorer.name!r} has no `bounds` of prefixes"
    if not isinstance(engine, Proves):
        return f"the engine {type(engine).__name__} finds no rare leaks"
    reasons = (why_unknown(engine, decoding, SEARCHING) for decoding in decodings)
    return next((reason for reason in reasons if reason), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveJob:
    """A question that is searched with so many forwards, the scorer telling what leaks."""

    asked: Searched
    prompt: Prompt
    decoding: Decoding
    forwards: int
    scorer: Opener[Scorer]


def prove_question(engine: Generate, job: ProveJob) -> Proving | Failure:
    """Search one question for leaks with the engine."""
    scorer, query = job.scorer.open(), job.asked.query
    settle = ranges(scorer, {query.id: job.prompt}, job.decoding.stop)
    pairs = [(query, job.asked.leads)]
    (result,) = cast(Proves, engine).prove(pairs, job.decoding, job.forwards, settle)
    if isinstance(result, Proving):
        try_bounds(scorer, job.prompt, result.events)
    return result


@dataclass(frozen=True, slots=True)
class RareLeaks:
    """A search for leaks too rare to be drawn: by what scorer, and with how many forwards.

    known: texts by prompt id that models said, with how often; those that leak are leads.
    at: the workers that do it; None where this process does.
    each: the queries that are searched, by id, with the forwards of each; None: all, alike.
    """

    scorer: Scorer
    forwards: int
    known: Mapping[str, Counter[str]]
    at: ScoringCrew | None = None
    each: Mapping[str, int] | None = None

    def forwards_of(self, query: Query) -> int:
        """At most so many for this query; 0 where it is not searched."""
        return self.forwards if self.each is None else self.each.get(query.id, 0)


def prove_arm(
    arm: Arm, engine: Proves, search: RareLeaks, progress: Progress = silent
) -> list[Failure]:
    """Search every question of an arm for leaks and store what is found; who failed, and why.

    Goes on where it was stopped. What was found by just this search is left as it is.
    """
    scorer, name = search.scorer, slug(search.scorer)
    questions = list(_asked(arm, search))
    progress(Headway(f"proving {arm.name}", 0, len(questions), "questions"))
    if arm.proofs.stored.has(name, arm.proofs.made_from(questions, search.forwards)):
        progress(Headway(f"proving {arm.name}", len(questions), len(questions), "questions"))
        return []
    begun, prompts = arm.proofs.begun(name, search.forwards), prompts_by_query(arm)
    kept = ((question, begun.get(question.key)) for question in questions)
    proofs = {question: proving for question, proving in kept if proving is not None}
    jobs = (
        ProveJob(
            asked=question,
            prompt=prompts[question.query.id],
            decoding=arm.decoding,
            forwards=search.forwards_of(question.query),
            scorer=opener_at(search.at, scorer),
        )
        for question in questions
        if question not in proofs
    )
    failures: list[Failure] = []
    for done, (job, result) in enumerate(_done(engine, jobs), start=len(proofs) + 1):
        if isinstance(result, Failure):
            failures.append(result)
        else:
            proofs[job.asked] = result
            begun.put(job.asked.key, result)
        progress(Headway(f"proving {arm.name}", done, len(questions), "questions"))
    searched = [question for question in questions if question in proofs]
    arm.proofs.write(name, [proofs[question] for question in searched], searched, search.forwards)
    begun.remove()
    return failures


def prove_arms(
    run: Run,
    engine: Generate,
    scorer: Scorer,
    prove: Prove,
    *,
    at: ScoringCrew | None = None,
    progress: Progress = silent,
) -> None:
    """Search every arm of the run that is proved, from what it and the runs that are named said.

    `at`: the workers that search, if any. The run has a note of what failed, of what the scorer
    cannot settle, and of leads that led to nothing. InputError and MixError before anything is
    searched.
    """
    arms = arms_to_prove(run)
    for arm in arms:
        require_proves(engine, arm, run)
    others = named_runs(run, prove.proposals)
    search = RareLeaks(scorer, prove.forwards, said_by(run, others), at)
    if not tells_prefixes(scorer):
        run.notes.append(
            f"{scorer.name!r} has no `bounds` of prefixes, so nothing is known to leak before it "
            "has ended: whole outputs alone are counted"
        )
    for arm in arms:
        failures = prove_arm(arm, require_proves(engine, arm, run), search, progress)
        run.notes += [f"nothing is proved of {fail.query.id!r}: {fail.reason}" for fail in failures]
        run.notes += _lost(arm, search, {fail.query.id for fail in failures})


def _lost(arm: Arm, search: RareLeaks, failed: Container[str]) -> list[str]:
    """Which questions have leaking answers of which nothing was found, if any."""
    proved = {proof.query_id for proof in arm.proofs.stored.values(slug(search.scorer))}
    led = [question.query.id for question in _asked(arm, search) if question.leads]
    lost = [name for name in led if name not in proved and name not in failed]
    if not lost:
        return []
    named = ", ".join(map(repr, lost[:_NAMED])) + (", …" if len(lost) > _NAMED else "")
    note = (
        f"nothing was found of {named} ({len(lost)} in all): an answer known to leak takes more "
        f"than {search.forwards} forwards, which a larger budget allows, or is no output, or next "
        "to impossible"
    )
    return [note]


def tells_prefixes(scorer: Scorer) -> bool:
    """Whether what it says of a prefix can settle a leak."""
    return callable(getattr(base_of(scorer), "bounds", None))


def _done(engine: Proves, jobs: Iterable[ProveJob]) -> Iterator[tuple[ProveJob, Proving | Failure]]:
    """The results of a search, question by question: here, or at several workers."""
    if isinstance(engine, Spreads):
        yield from engine.spread(prove_question, jobs)
        return
    for job in jobs:
        yield job, prove_question(cast(Generate, engine), job)


def _asked(arm: Arm, search: RareLeaks) -> Iterator[Searched]:
    """The questions of an arm that were drawn, each with what leaks of what is known."""
    failed, prompts = arm.failures, prompts_by_query(arm)
    for query in arm.queries:
        if query.id not in failed and search.forwards_of(query):
            yield Searched(query, tuple(_leads(query, prompts[query.id], search)))


def _leads(query: Query, prompt: Prompt, search: RareLeaks) -> Iterator[str]:
    """The benchmark's answers, then what leaks of the known texts, the most frequent first."""
    counts = search.known.get(query.prompt_id, Counter())
    texts = [text for text, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]
    stated = [text for text in (prompt.answer, prompt.paraphrased_answer) if text and text.strip()]
    every = list(dict.fromkeys([*stated, *texts]))
    scores = score_texts(search.scorer, every, prompt)
    leaking = [text for text, score in zip(every, scores, strict=True) if score]
    yield from leaking[: _LEADS + len(stated)]


def said_by(run: Run, others: Sequence[Run]) -> dict[str, Counter[str]]:
    """By prompt id what any arm of these runs says, and how often; `others` of equal prompts alone.

    InputError where one of the others asked none of the run's prompts.
    """
    texts: dict[str, Counter[str]] = {}
    for source in (run, *others):
        shared = shared_prompts(run, source)
        require_sampled(source)
        for prompt_id, counts in said_in(source.arms.values()).items():
            if prompt_id in shared:
                texts.setdefault(prompt_id, Counter()).update(counts)
    return texts


def named_runs(run: Run, names: Iterable[str]) -> list[Run]:
    """The finished runs of these names, which asked questions of this run.

    Raises InputError for a name that is no run, and for a run about none of the questions.
    """
    runs = []
    for name in names:
        if (source := finished_run(name)) is None:
            raise InputError(
                f"`{name}` is no finished run, and models are not drawn from here any more: their "
                "draws added next to nothing to what is proved. Evaluate it on the same "
                f"questions, `leakbound evaluate {name} --out RUN …`, and name that run."
            )
        runs.append(Run.open(source))
        shared_prompts(run, runs[-1])
    return runs


def said_in(arms: Iterable[Arm]) -> dict[str, Counter[str]]:
    """By prompt id what these arms say, and how often."""
    texts: dict[str, Counter[str]] = {}
    for arm in arms:
        prompt_of = {query.id: query.prompt_id for query in arm.queries}
        for query_id, text, count in texts_of(arm) if arm.texts else ():
            texts.setdefault(prompt_of[query_id], Counter())[text] += count
    return texts


def shared_prompts(run: Run, other: Run) -> frozenset[str]:
    """The ids of the prompts that both asked alike; InputError where there are none."""
    ours = {prompt.id: (prompt.question, prompt.answer) for prompt in run.prompts}
    theirs = {prompt.id: (prompt.question, prompt.answer) for prompt in other.prompts}
    shared = frozenset(name for name, pair in ours.items() if theirs.get(name) == pair)
    if not shared:
        raise InputError(
            f"`{other.path}` asked none of the questions of `{run.path}`, so no answer of it is "
            "one to these. Name a run on the same benchmark."
        )
    return shared
