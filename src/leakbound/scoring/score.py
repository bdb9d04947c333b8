"""Score the distinct completions of a run. The model under evaluation does not run."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, cast

from leakbound.engines.models import OpenModels
from leakbound.errors import InputError, MixError, ModelError
from leakbound.planning.before_drawing import add_notes, needs_model, reference_notes
from leakbound.planning.plan import ScoringCrew
from leakbound.scorers import (
    Of,
    Readable,
    Threshold,
    check_prompts,
    connect,
    digest,
    fingerprint,
    make_scorer,
    models_of,
    reading_of,
    reads_thoughts,
    rows_of,
    score_outputs,
    score_ranges,
    source_of,
    with_reading,
)
from leakbound.scorers.spec import Logged
from leakbound.store import Arm, Run, holding, tables
from leakbound.store.tables import values_of
from leakbound.study import Loading
from leakbound.text.shown import many
from leakbound.types import (
    RULE,
    TURN,
    Event,
    Headway,
    JsonObject,
    Progress,
    Prompt,
    Scorer,
    different,
    silent,
)


def scorers_for(
    specs: Sequence[str],
    prompts: Sequence[Prompt],
    loading: Loading | None = None,
    servers: frozenset[str] = frozenset(),
) -> tuple[Scorer, ...]:
    """Return the scorers with these specs, after each has checked every prompt.

    Args:
        specs: the specs of the scorers.
        prompts: the prompts of the run.
        loading: how models of scorers are loaded, see `OpenModels` (None: they are not loaded, so
            scorers that need a model have only their stored scores).
        servers: the URLs of the servers that the user named.

    Raises:
        UnnamedServerError: a scorer needs another server.
    """
    scorers = tuple(make_scorer(spec) for spec in dict.fromkeys(specs))
    for scorer in scorers:
        check_prompts(scorer, prompts)
    if loading is None:
        return scorers
    models = OpenModels(servers=servers, **loading)
    return tuple(connect(scorer, models) for scorer in scorers)


def in_reading_of(run: Run, scorers: Iterable[Scorer]) -> tuple[Scorer, ...]:
    """Return scorers with the reading (`of=`) that a run's thoughts allow, without repeats.

    If a thought of any model is hidden, a scorer without `of=` gets an `of=` for all models of the
    run. If the target has a visible thought, it gets `of=either`: hidden thoughts are missing, and
    leaks in visible thoughts count. Otherwise it gets `of=answer`.

    Args:
        run: a run whose draws are complete.
        scorers: any scorers.

    Returns:
        The scorers; unchanged if no thought is hidden.

    Raises:
        InputError: a scorer's name has `of=either`, but no thought of the target is visible.
    """
    chosen = tuple(scorers)
    arms = run.arms.values() if any(map(reads_thoughts, chosen)) else ()
    hidden = sum(arm.ledger.hidden for arm in arms)
    if not hidden:
        return chosen
    of: Of = "either" if any(a.thinks for a in arms if not a.key.is_control) else "answer"
    both = next((s for s in chosen if reading_of(s) == "either"), None)
    if both and of == "answer":
        raise InputError(
            f"{both.name!r} scores thoughts, but `{run.path}` has {many(hidden, 'draw')} with a "
            f"hidden thought and no visible thought. Use {with_reading(both, of).name!r}."
        )
    named = (s if reading_of(s) else with_reading(s, of) for s in chosen)
    return tuple({scorer.name: scorer for scorer in named}.values())


def parts_of(scorer: Scorer) -> tuple[Scorer, ...]:
    """Return a scorer of answers and a scorer of thoughts for a scorer of both parts.

    Args:
        scorer: any scorer.

    Returns:
        The two scorers. Empty if the scorer's name has `of=`, if the scorer reads answers only, or
            if it needs a model, which makes more scores costly.
    """
    if reading_of(scorer) is not None or models_of(scorer):
        return ()
    return with_reading(scorer, "answer"), with_reading(scorer, "thought")


def scorers_of(run: Run) -> tuple[str, ...]:
    """Return the scorers of a run's last command, or of its benchmark; raise InputError if none."""
    named = run.study.scorers or run.record.scorers
    if not named:
        raise InputError(
            f"neither `{run.path}` nor its benchmark names a scorer. Add a scorer, as in "
            "`--scorer rouge-l-recall`."
        )
    return named


def require_known(run: Run, names: Sequence[str]) -> None:
    """Raise InputError for a scorer that this process does not know. The message has its origin.

    Args:
        run: a run with scores or estimates of these scorers.
        names: the scorers' names.

    Raises:
        InputError: a scorer was passed as an object, or its package is not installed.
    """
    for name in names:
        try:
            make_scorer(name)
        except InputError as error:
            origin = next(filter(None, (arm.scored.origin(name) for arm in run.arms.values())), "")
            if not origin:
                raise
            raise InputError(
                f"`{run.path}` has scores of the scorer {name!r}{origin}, which is not installed. "
                "Install it, pass its object to `leakbound.bound`, or use another scorer: "
                f"`leakbound bound {run.path} --scorer NAME`."
            ) from error


def scored_by(run: Run) -> tuple[str, ...]:
    """Return the scorers that have scores of the current completions in every arm.

    The scorers of the run's last command come first.
    """
    stored = [{name for name, _ in arm.scored.scorers()} for arm in run.arms.values()]
    everywhere = set.intersection(*stored) if stored else set()
    require_known(run, sorted(everywhere))
    named = run.study.scorers or run.record.scorers
    everywhere -= readings_among(everywhere).difference(named)
    order = [name for name in named if name in everywhere]
    return (*order, *sorted(everywhere.difference(order)))


def readings_among(names: Set[str]) -> set[str]:
    """Return the names in `names` that only add a reading (`of=`) to another name in `names`."""
    named = (name for name in names if "of=" in name)
    plain = {name: with_reading(make_scorer(name), None).name for name in named}
    return {name for name, other in plain.items() if other != name and other in names}


def bounded_by(run: Run) -> tuple[str, ...]:
    """Return the default scorers to bound: the last command's, then all others with scores."""
    return tuple(dict.fromkeys([*run.study.scorers, *scored_by(run)])) or scorers_of(run)


def slug(scorer: Scorer) -> str:
    """Return the name of a scorer's files. It is readable and identifies the settings."""
    readable = "".join(c if c.isalnum() or c in "-." else "_" for c in scorer.name)
    return f"{readable}-{digest(scorer)}"


def prompts_by_query(arm: Arm) -> dict[str, Prompt]:
    """Return the prompt of each query of an arm, by query id."""
    prompts = {prompt.id: prompt for prompt in arm.run_queries.prompts}
    return {query.id: prompts[query.prompt_id] for query in arm.queries}


def _texts_of(arm: Arm) -> Iterator[tuple[str, str, int]]:
    """Yield (query id, answer, count) for an arm's completions; explored outputs have count 1."""
    for part in arm.parts:
        yield from tables.cells_of(arm.completions(part), "query_id", "answer", "count")
    for table in arm.masses.tables():
        ended = table.filter(table["ended"])
        yield from ((*row, 1) for row in tables.cells_of(ended, "query_id", "answer"))


def answers_of(arms: Iterable[Arm]) -> dict[str, Counter[str]]:
    """Return the answers of these arms with their counts, by prompt id."""
    texts: dict[str, Counter[str]] = {}
    for arm in arms:
        prompt_of = {query.id: query.prompt_id for query in arm.queries}
        for query_id, text, number in _texts_of(arm) if arm.texts else ():
            texts.setdefault(prompt_of[query_id], Counter())[text] += number
    return texts


def is_dialogue(arm: Arm) -> bool:
    """Return whether each completion of an arm is a conversation."""
    return "dialogue" in arm.spec.fingerprint


@dataclass(frozen=True, slots=True)
class ScoreJob:
    """Outputs to score in one batch, with their prompts. `number` is the number of their table."""

    number: int
    outputs: tuple[Readable, ...]
    prompts: tuple[Prompt, ...]

    @classmethod
    def of(cls, number: int, table: Any, arm: Arm, prompts: Mapping[str, Prompt]) -> ScoreJob:
        """Make the job of a table of the arm's completions; `prompts` are by query id."""
        names = ("query_id", "answer", "thought", "hidden")
        query_ids, answers, thoughts, hidden = (table[name].to_pylist() for name in names)
        missing = tables.missing(table, arm.decoding).to_pylist()
        outputs = rows_of(answers, thoughts, missing, hidden, TURN if is_dialogue(arm) else None)
        return cls(number, tuple(outputs), tuple(prompts[q] for q in query_ids))


def score_job(scorer: Scorer, job: ScoreJob) -> list[float | None]:
    """Return one score per output; None if the output has no score."""
    return score_outputs(scorer, job.outputs, job.prompts)


def score_part(arm: Arm, scorer: Scorer, table: Any) -> list[float | None]:
    """Return one score, or None, per row of a table of the arm's completions."""
    return score_job(scorer, ScoreJob.of(0, table, arm, prompts_by_query(arm)))


def range_part(arm: Arm, scorer: Scorer, table: Any) -> list[tuple[float, float]]:
    """Return the lowest and highest score of each row of a table of events, sorted by query."""
    prompt_of = prompts_by_query(arm)
    rows: dict[str, list[Event]] = {}
    for query_id, event in zip(table["query_id"].to_pylist(), values_of(Event, table), strict=True):
        rows.setdefault(query_id, []).append(event)
    return [
        ends
        for query_id, events in rows.items()
        for ends in score_ranges(scorer, events, prompt_of[query_id], arm.decoding.stop)
    ]


def score_arm(
    arm: Arm,
    scorer: Scorer,
    began: Callable[[], object] = lambda: None,
    at: ScoringCrew | None = None,
) -> None:
    """Compute the missing scores of an arm's completions and explored events.

    Args:
        arm: the arm.
        scorer: the scorer.
        began: a function that is called at the start of each part.
        at: the workers that score; None: this process scores.

    Raises:
        MixError: this scorer's stored scores of the arm were made with a different model.
    """
    require_same_model([arm], scorer)
    if _is_given(arm, scorer):
        return
    prompts = prompts_by_query(arm)

    def jobs(tables: Iterable[Any]) -> Iterator[ScoreJob]:
        for number, table in enumerate(tables):
            began()
            yield ScoreJob.of(number, table, arm, prompts)

    def score(tables: Iterable[Any]) -> Iterator[list[float | None]]:
        return _scores(jobs(tables), scorer, at)

    arm.scored.write(scorer.name, slug(scorer), score, fingerprint(scorer), source_of(scorer))
    arm.masses.score(scorer.name, slug(scorer), lambda table: range_part(arm, scorer, table))


def _scores(
    jobs: Iterable[ScoreJob], scorer: Scorer, at: ScoringCrew | None
) -> Iterator[list[float | None]]:
    """Yield the scores of every job in the order of the jobs."""
    if at is None or not at.scores(scorer):
        yield from (score_job(scorer, job) for job in jobs)
        return
    opener = at.opener(scorer)
    at.crew.prepare(opener, _require_same, fingerprint(scorer))
    early: dict[int, list[float | None]] = {}
    following = 0
    for job, scores in at.crew.each(opener, score_job, jobs):
        early[job.number] = scores
        while following in early:
            yield early.pop(following)
            following += 1


def _require_same(scorer: Scorer, model: JsonObject) -> None:
    """Raise ModelError if a worker has a different model for this scorer than this process."""
    if differing := different(fingerprint(scorer), model):
        raise ModelError(
            f"the worker on {socket.gethostname()} uses another model for {scorer.name!r} than the "
            f"main process (different: {', '.join(differing)}). Copy the model to this worker, "
            "then repeat the command."
        )


def _is_given(arm: Arm, scorer: Scorer) -> bool:
    """Return whether the scorer can only use scores that were imported with the draws.

    If the scorer is a threshold on such scores, its scores are computed from them and stored.
    Raises InputError if the scores are missing.
    """
    base = scorer.scorer if isinstance(scorer, Threshold) else scorer
    if arm.texts and not isinstance(base, Logged):
        return False
    if arm.scored.has(scorer.name, slug(scorer)):
        return True
    if base is scorer or not arm.scored.has(base.name, slug(base)):
        raise InputError(
            f"{arm.place} has no scores of {base.name!r} by version {RULE} of the scoring rules. "
            "These scores cannot be computed, because "
            + ("they are from a tool's log." if arm.texts else "the texts were redacted.")
            + " Import data that has both texts and scores."
        )
    rows = iter(arm.scored.rows(slug(base)))
    cut = cast(Threshold, scorer).cut
    arm.scored.write(
        scorer.name,
        slug(scorer),
        lambda tables: (cut([*islice(rows, table.num_rows)]) for table in tables),
    )
    return True


@holding("score")
def score_run(
    run: Run, scorers: Sequence[Scorer], progress: Progress = silent, at: ScoringCrew | None = None
) -> None:
    """Score every arm with every scorer. If a model has thoughts, also score each part."""
    also = [part for scorer in scorers for part in parts_of(scorer)]
    arms = run.arms.values()
    if also and all(arm.texts for arm in arms) and any(arm.thinks for arm in arms):
        scorers = [*{scorer.name: scorer for scorer in (*scorers, *also)}.values()]
    for scorer in scorers:
        require_same_model(run.arms.values(), scorer)
        if needs_model(scorer):
            _check_references(run, scorer, progress, at)
    jobs = [(arm, scorer) for arm in run.arms.values() for scorer in scorers]
    total, done = sum(len(arm.parts) for arm, _ in jobs), count()
    for arm, scorer in jobs:
        score_arm(arm, scorer, lambda: progress(Headway("scoring", next(done), total, "parts")), at)
    progress(Headway("scoring", total, total, "parts"))


def _check_references(run: Run, scorer: Scorer, progress: Progress, at: ScoringCrew | None) -> None:
    """Add a note on reference answers that the scorer does not score as leaks."""
    arm = next((arm for arm in run.arms.values() if arm.texts and arm.parts), None)
    if arm is None or arm.scored.has(scorer.name, slug(scorer)):
        return
    prompts = prompts_by_query(arm)
    of_part = {prompts[id].id: prompts[id] for id in arm.parts[0].query_ids}

    def score(pairs: Sequence[tuple[str, Prompt]]) -> list[float | None]:
        texts, prompts = zip(*pairs, strict=True) if pairs else ((), ())
        job = ScoreJob(0, tuple(Readable((text,)) for text in texts), prompts)
        return next(_scores([job], scorer, at)) if pairs else []

    add_notes(run, reference_notes([scorer], list(of_part.values()), score), progress)


def require_same_model(arms: Iterable[Arm], scorer: Scorer) -> None:
    """Raise MixError if a different model with the same name made scores of this scorer."""
    now = fingerprint(scorer)
    for arm in arms if now else ():
        before = arm.scored.model(slug(scorer))
        if before is not None and before != now:
            raise MixError(
                f"{arm.place} has scores of {scorer.name!r} from an earlier model of the same name "
                f"(different: {', '.join(different(before, now))}). Rename one of the models, or "
                f"remove the file to score again: `{arm.scored.stored.file(slug(scorer))}`."
            )
