"""Search a finished run for rare leaks, and prove them by the probabilities of outputs.

The search for a question begins with leaking answers to this question, from
this run and from other named runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from leakbound.drawing.explore import (
    PROVING,
    SEARCHING,
    ranges,
    require_explores,
    try_bounds,
    why_unknown,
)
from leakbound.drawing.parts import Job, Meter, run_jobs
from leakbound.drawing.plans import finished_run
from leakbound.errors import InputError
from leakbound.planning.plan import ScoringCrew, opener_at
from leakbound.scorers import base_of, score_texts
from leakbound.scoring.checks import require_sampled
from leakbound.scoring.score import answers_of, prompts_by_query, slug
from leakbound.store import Arm, ArmKey, ImportedDraws, Run, Searched
from leakbound.study import Prove
from leakbound.text.shown import some
from leakbound.types import (
    Decoding,
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
    from_json,
    object_of,
    silent,
)

_LEADS = 64  # texts per question at which the search begins, in addition to its reference answers


def is_proved(key: ArmKey, decoding: Decoding) -> bool:
    """Return whether an arm has sampled answers of the run's model to the original questions."""
    return key.own_words and not decoding.greedy and not key.is_control


def arms_to_prove(run: Run) -> list[Arm]:
    """Return the arms with sampled answers of the run's model to the original questions.

    Raises InputError if there is no such arm, or if one of them was imported.
    """
    arms = [arm for arm in run.arms.values() if is_proved(arm.key, arm.decoding)]
    for arm in arms:
        if isinstance(arm.spec.draws, ImportedDraws):
            raise InputError(
                f"{arm.place} was imported, so its model cannot be loaded. Evaluate the model with "
                "leakbound first."
            )
    if not arms:
        raise InputError(
            f"`{run.path}` has only greedy answers, but proofs are about sampled answers. Evaluate "
            "the model at a temperature above 0."
        )
    return arms


def require_proves(engine: Generate, arm: Arm, run: Run) -> None:
    """Raise InputError if an engine cannot search for rare leaks.

    Raise MixError if its model is not the model of the arm.
    """
    if isinstance(engine, Measures):
        failed = arm.failures
        engine.measure([query for query in arm.queries if query.id not in failed])
    probe = engine.probe if isinstance(engine, Probes) else None
    run.add_arm(arm.key, replace(arm.spec, fingerprint=engine.fingerprint, probe=probe))
    require_prover(engine, arm.name, arm.decoding)


def require_prover(engine: Generate, arm: str, decoding: Decoding) -> None:
    """Raise InputError if an engine cannot find rare leaks under a decoding."""
    require_explores(engine, arm, decoding, PROVING)
    if not isinstance(engine, Proves):
        raise InputError(
            f"the engine {type(engine).__name__} cannot search for rare leaks. Use a transformers "
            "model."
        )


def why_unproved(engine: Generate, decodings: Iterable[Decoding], scorer: Scorer) -> str:
    """Return why the search for the worst input cannot use proofs; "" if it can.

    The scorer must recognise leaks from the prefix of an output. Other scorers, such as a judge,
    would have to score every output that the search visits.
    """
    if not bounds_prefixes(scorer):
        return f"scorer {scorer.name!r} cannot bound the scores of all texts with a given prefix"
    if not isinstance(engine, Proves):
        return f"the engine {type(engine).__name__} cannot search for rare leaks"
    reasons = (why_unknown(engine, decoding, SEARCHING) for decoding in decodings)
    return next((reason for reason in reasons if reason), "")


def prove_question(engine: Generate, job: Job) -> Proving | Failure:
    """Search for leaks of the job's only question with the engine."""
    assert job.scorer is not None
    assert isinstance(job.work, int)
    (query,), scorer = job.queries, job.scorer.open()
    settle = ranges(scorer, job.prompts, job.decoding.stop)
    (result,) = cast(Proves, engine).prove([(query, job.texts)], job.decoding, job.work, settle)
    if isinstance(result, Proving):
        try_bounds(scorer, job.prompts[query.id], result.events)
    return result


def questions_to_prove(
    arm: Arm,
    scorer: Scorer,
    known: Mapping[str, Counter[str]],
    query_ids: Container[str] | None = None,
) -> list[Searched]:
    """Return the questions of an arm, each with leaking texts with which its search begins.

    Args:
        arm: the arm.
        scorer: decides which outputs leak.
        known: the counts of the models' answers, by prompt id.
        query_ids: the queries to search (None: all queries). Failed queries are left out.
    """
    failed, prompts = arm.failures, prompts_by_query(arm)
    return [
        Searched(query, tuple(_leads(query, prompts[query.id], scorer, known)))
        for query in arm.queries
        if query.id not in failed and (query_ids is None or query.id in query_ids)
    ]


def prove_arm(
    arm: Arm,
    engine: Generate,
    scorer: Scorer,
    questions: Sequence[Searched],
    forwards: Mapping[str, int],
    at: ScoringCrew | None = None,
    progress: Progress = silent,
) -> list[Failure]:
    """Search for leaks of an arm's questions, and store the proofs.

    A killed search can be resumed. A search whose result is stored is not repeated.

    Args:
        arm: the arm.
        engine: the engine of the arm's model.
        scorer: decides which outputs leak.
        questions: the questions to search.
        forwards: the largest number of forward passes for each query, by its id.
        at: the workers that search (None: this process searches).
        progress: called with the number of finished questions.

    Returns:
        The questions that failed, with reasons.
    """
    require_prover(engine, arm.name, arm.decoding)
    name, most = slug(scorer), max(forwards.values())
    meter = Meter(progress, f"proving {arm.name}", "questions", len(questions), len(questions))
    journal = arm.proofs.journal(name, most)
    if arm.proofs.stored.has(name, arm.proofs.made_from(questions, most)):
        journal.remove()  # left by a command that was killed after it stored the proofs
        meter.show()
        return []
    prompts = prompts_by_query(arm)
    proofs = {
        i: from_json(Proving, value, f"`{journal.file}`")
        for i, question in enumerate(questions)
        for value in journal.get(question.key)[:1]
    }
    jobs = (
        Job(
            number=i,
            queries=(question.query,),
            decoding=arm.decoding,
            work=forwards[question.query.id],
            prompts={question.query.id: prompts[question.query.id]},
            scorer=opener_at(at, scorer),
            texts=question.leads,
        )
        for i, question in enumerate(questions)
        if i not in proofs
    )
    failures: list[Failure] = []
    meter.done = len(proofs)
    for job, result in run_jobs(engine, prove_question, jobs, meter):
        if isinstance(result, Failure):
            failures.append(result)
        else:
            proofs[job.number] = result
            journal.put(questions[job.number].key, {**object_of(result)})
    order = sorted(proofs)
    arm.proofs.write(name, [proofs[i] for i in order], [questions[i] for i in order], most)
    journal.remove()
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
    """Search every arm of `arms_to_prove`. Begin with the answers in the run and in the proposals.

    The run's notes list failures, a scorer without `bounds`, and leaking texts that were not
    proved. All errors are raised before the first search. `at`: the workers that search, if any.
    """
    arms = arms_to_prove(run)
    for arm in arms:
        require_proves(engine, arm, run)
    known: dict[str, Counter[str]] = {}
    for source in (run, *named_runs(run, prove.proposals)):
        require_sampled(source)
        answers, shared = answers_of(source.arms.values()), shared_prompts(run, source)
        for prompt_id in answers.keys() & shared:
            known.setdefault(prompt_id, Counter()).update(answers[prompt_id])
    if not bounds_prefixes(scorer):
        run.notes.append(
            f"scorer {scorer.name!r} cannot bound the scores of all texts with a given prefix, so "
            "the search adds up only the probabilities of complete outputs that leak"
        )
    for arm in arms:
        require_proves(engine, arm, run)
        questions = questions_to_prove(arm, scorer, known)
        forwards = dict.fromkeys((query.id for query in arm.queries), prove.forwards)
        failures = prove_arm(arm, engine, scorer, questions, forwards, at, progress)
        note_failures(run, failures)
        led = [question.query.id for question in questions if question.leads]
        proved = {proof.query_id for proof in arm.proofs.stored.values(slug(scorer))}
        failed = {failure.query.id for failure in failures}
        if lost := [name for name in led if name not in proved | failed]:
            run.notes.append(
                f"no leak is proved for {some(lost)}, although a leaking answer is known: the "
                f"answer needs more than {prove.forwards} forward passes (increase the budget), is "
                "too unlikely, or cannot occur under the decoding"
            )


def note_failures(run: Run, failures: Iterable[Failure]) -> None:
    """Add a note to the run for each failed question."""
    run.notes += [f"no leak is proved for {fail.query.id!r}: {fail.reason}" for fail in failures]


def bounds_prefixes(scorer: Scorer) -> bool:
    """Return whether the scorer can bound the scores of all continuations of a prefix."""
    return callable(getattr(base_of(scorer), "bounds", None))


def _leads(
    query: Query, prompt: Prompt, scorer: Scorer, known: Mapping[str, Counter[str]]
) -> Iterator[str]:
    """Yield the texts that leak: first the benchmark's answers, then known answers by frequency."""
    counts = known.get(query.prompt_id, Counter())
    texts = [text for text, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]
    stated = [text for text in (prompt.answer, prompt.paraphrased_answer) if text and text.strip()]
    every = list(dict.fromkeys([*stated, *texts]))
    scores = score_texts(scorer, every, prompt)
    leaking = [text for text, score in zip(every, scores, strict=True) if score]
    yield from leaking[: _LEADS + len(stated)]


def named_runs(run: Run, names: Iterable[str]) -> list[Run]:
    """Open the finished runs with these names.

    Raises InputError for a name that is not a run, and for a run that has no question in common
    with this run.
    """
    runs = []
    for name in names:
        if (source := finished_run(name)) is None:
            raise InputError(
                f"`proposals` must be finished runs, got `{name}`. To use a model, evaluate it on "
                f"the same questions with `leakbound evaluate {name} --out RUN …`, and pass RUN."
            )
        runs.append(Run.open(source))
        shared_prompts(run, runs[-1])
    return runs


def shared_prompts(run: Run, other: Run) -> frozenset[str]:
    """Return the ids of the prompts that are in both runs; raise InputError if there are none."""
    ours = {prompt.id: (prompt.question, prompt.answer) for prompt in run.prompts}
    theirs = {prompt.id: (prompt.question, prompt.answer) for prompt in other.prompts}
    shared = frozenset(name for name, pair in ours.items() if theirs.get(name) == pair)
    if not shared:
        raise InputError(
            f"`{other.path}` has no question in common with `{run.path}`, so its answers cannot be "
            "used. Name a run on the same benchmark."
        )
    return shared
