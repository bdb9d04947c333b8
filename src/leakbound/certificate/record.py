"""Check that the recorded questions and draws of a run are consistent.

A forger can recompute every digest of a run. But many recorded values follow from other recorded
values. This module computes these values again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice, pairwise

from leakbound.benchmarks import Benchmark, made_again
from leakbound.benchmarks.benchmark import digest_of, published, row_digests
from leakbound.certificate.certificate import Check, Difference, differences, mark
from leakbound.drawing.queries import named, share
from leakbound.errors import InputError, LeakboundError
from leakbound.inputs import Filters, gather
from leakbound.planning.plan import looks_of
from leakbound.store import Arm, ExploredDraws, ImportedDraws, Run, StoppedDraws
from leakbound.store.files import as_read
from leakbound.store.plan import Plan
from leakbound.store.tables import cells_of, completions_of
from leakbound.study import Rewritings
from leakbound.text.counting import counted_as, is_missing
from leakbound.types import BenchmarkRecord, Prompt, Query, object_of

_SHOWN = 3  # the maximum number of faults that a check reports


def check_record(run: Run, arm: Arm, slug: str) -> Iterator[Check]:
    """Check the recorded questions, queries, plan, draws and events (explored sets of outputs).

    Args:
        run: the run.
        arm: the arm that a certificate is about.
        slug: the file name of the scorer whose proofs are checked.

    Returns:
        One check each for the questions, the queries, the plan, the draws and the events.
    """
    of_benchmark = "are those of the named benchmark"
    has = of_benchmark if is_known(run.record.benchmark) else "have the recorded number and digest"
    yield _check("questions", f"the questions {has}", _questions(run))
    yield _check("queries", "the model was given the questions of the run", _queries(run))
    yield _check("plan", "the number of draws follows the recorded plan", _plan(run, arm))
    yield _check(
        "outputs", "every planned output is present and classified correctly", _outputs(arm)
    )
    yield _check("events", "no explored or proved output counts twice", _events(arm, slug))


def is_known(record: BenchmarkRecord) -> bool:
    """Return whether the questions of a benchmark are published or can be generated again."""
    with suppress(InputError):  # the check of the questions reports the error
        return bool(record.usual and record.usual.published) or made_again(record) is not None
    return False


def _check(name: str, text: str, faults: Iterator[str]) -> Check:
    """Return a check that reports the first of these faults, or `text` if there are none."""
    try:
        first = [*islice(faults, _SHOWN)]
    except LeakboundError as error:
        first = [f"the {name} cannot be recomputed: {error}"]
    return Check(name, "differs" if first else "ok", "; ".join(first) or text)


def _questions(run: Run) -> Iterator[str]:
    """Yield a message for each difference between the run's questions and their record."""
    record, prompts = run.record.benchmark, run.prompts
    if record.prompts != len(prompts):
        yield f"the run has {len(prompts):,} questions, but its record states {record.prompts:,}"
    if record.sha256 != digest_of(prompts):
        yield "the digest of the questions is not the recorded digest"
    if (task := made_again(record)) is not None:
        yield from _unlike(record, prompts, task)
    elif (rows := published().get(record.name)) is not None:
        yield from _unpublished(record, prompts, rows)
    elif record.usual is not None and record.usual.published is not None:
        yield f"no published rows of {record.name} are known"


def _unlike(record: BenchmarkRecord, prompts: Sequence[Prompt], task: Benchmark) -> Iterator[str]:
    """Yield a message for each difference from a benchmark that leakbound generated again."""
    rows = {prompt.id: prompt for prompt in (*task.prompts, *task.left_out)}
    for number, prompt in enumerate(prompts, 1):
        if rows.get(prompt.id) != prompt:
            yield f"question {number} of the run is not question {number} of {record.name}"
    own, theirs = object_of(record), object_of(task.fingerprint())
    for name in own.keys() - {"prompts", "sha256"}:
        if own[name] != theirs[name]:
            yield f"the recorded `{name}` differs from the `{name}` of {record.name}"


def _unpublished(
    record: BenchmarkRecord, prompts: Sequence[Prompt], rows: Sequence[str]
) -> Iterator[str]:
    """Yield a message for each row that differs from the published rows of the benchmark."""
    usual, places = record.usual, {row: number for number, row in enumerate(rows)}
    if usual is None or not usual.published:
        return
    if usual.prompts != len(rows):
        yield f"{record.name} has {len(rows):,} questions, but the record has {usual.prompts:,}"
    last = -1
    for number, row in enumerate(row_digests(prompts), 1):
        place = places.get(row)
        if place is not None and place > last:
            last = place
        else:
            yield f"question {number} of the run is not question {number} of {record.name}"


def _queries(run: Run) -> Iterator[str]:
    """Yield a message for each way in which the run's queries do not follow from its questions."""
    questions = [Query.original(prompt) for prompt in run.prompts]
    for number, (query, question) in enumerate(zip(run.questions, questions, strict=False), 1):
        if query != question:
            yield f"the text sent to the model for question {number} is not the run's text"
    if len(run.questions) != len(questions):
        yield f"{len(run.questions):,} questions were sampled, but the run has {len(questions):,}"
    texts: dict[str, list[str]] = {prompt.id: [] for prompt in run.prompts}
    rewritings = [query for query in run.queries if query.source != "original"]
    for query in rewritings:
        if query.prompt_id in texts:
            texts[query.prompt_id].append(query.text)
        else:
            yield f"{query.id!r} is not a rewriting of any question of the run"
    inputs = run.record.inputs
    if inputs is None:
        if rewritings:
            yield "rewritings were sampled, but the record has none"
        return
    kind = inputs.source.partition(":")[0]
    if others := {query.source for query in rewritings} - {kind}:
        yield f"rewritings are from {', '.join(sorted(others))}, not from {inputs.source}"
    if not inputs.ids:
        numbered = named(run.prompts, [*texts.values()], kind)
        if numbered != [*run.queries]:
            yield "the order or the names of the rewritings do not follow from their questions"
    if may_gather(run):
        again = gather(
            Rewritings(inputs.source).open(),
            run.prompts,
            number=inputs.queries,
            seed=inputs.seed,
            filters=Filters(content=inputs.filters),
        )
        for prompt, accepted in zip(run.prompts, again, strict=True):
            if [*accepted.queries] != texts[prompt.id]:
                yield f"the rewritings of {prompt.id!r} do not come from {inputs.source}"


def may_gather(run: Run) -> bool:
    """Return whether a run's rewritings can be made again without a model or a file."""
    inputs = run.record.inputs
    return (
        inputs is not None
        and inputs.source in ("rules", "benchmark")
        and not inputs.ids
        and inputs.embedder is None
    )


def _plan(run: Run, arm: Arm) -> Iterator[str]:
    """Yield a message for each way in which the draws contradict n, the seed and the design."""
    spec, draws = arm.spec, arm.spec.draws
    if isinstance(draws, ExploredDraws) != (spec.plan == Plan.exploring()):
        yield "the arm has both a fixed number of draws and an exploration"
    if isinstance(draws, StoppedDraws):
        rule = looks_of(draws, spec.plan.n)
        if draws.first != rule.first:
            yield (
                f"the first look was after {draws.first:,} draws, but the plan has it after "
                f"{rule.first:,} draws"
            )
        if arm.unlooked():
            yield "questions have draws after their last look"
        seen: dict[str, int] = {}
        for query_id, look in chain.from_iterable(looks.items() for looks in arm.looks):
            if look.n <= seen.get(query_id, 0):
                yield f"question {query_id!r} was looked at twice at {look.n:,} draws"
            seen[query_id] = look.n
    if spec.seed is None and not isinstance(draws, ImportedDraws):
        yield "the draws have no seed"
    inputs = run.record.inputs
    shared = inputs is not None and arm.key.kind == "rewritings"
    if not shared and spec.shares is not None:
        yield "an arm of the original questions has draws that were divided among rewritings"
    if shared and inputs is not None:
        if spec.seed != inputs.seed:
            yield f"the draws have seed {spec.seed}, but the rewritings have seed {inputs.seed}"
        if spec.shares != share(run.queries, inputs.design, spec.plan.n, inputs.seed):
            yield f"draws are not divided by design {inputs.design!r} with seed {inputs.seed}"
    if spec.attack_queries and arm.key.own_words:
        yield "an arm of the original questions has draws for other texts"
    if isinstance(draws, ImportedDraws) != (spec.fingerprint.get("engine") == "imported"):
        yield "the record must have either imported draws or a model that drew, but not both"


def _outputs(arm: Arm) -> Iterator[str]:
    """Yield a message for each output that is missing, unplanned or in the wrong class."""
    draws, stop = arm.spec.draws, arm.decoding.stop
    for part in arm.parts:
        meta = next(arm.meta([part]), None)
        if meta is None:
            yield f"part {part.number} is missing"
            continue
        drawn = Counter[str](meta.missing)
        chunks = range(part.first_chunk, part.first_chunk + len(part.sizes))
        table = arm.completions(part)
        classes = cells_of(table, "counted", "unanswered")
        for (query_id, output), stored in zip(completions_of(table), classes, strict=True):
            drawn[query_id] += output.count
            unplanned = output.count > 0 and part.sizes and output.chunk not in chunks
            if unplanned or output.count < 0:  # a count of 0 marks a reference answer
                yield f"part {part.number} has an unplanned output of {query_id!r}"
            counted = counted_as(output, stop)
            if stored != (counted, is_missing(output, counted)):
                yield f"an output of {query_id!r} in part {part.number} is in the wrong class"
        if table.num_rows != meta.rows:
            yield (
                f"part {part.number} has {table.num_rows:,} rows, but the record has {meta.rows:,}"
            )
        if arm.explored or (isinstance(draws, ImportedDraws) and draws.claim):
            continue  # no plan fixed the number of draws
        draws_of = part.draws_per_query or (sum(part.sizes),) * len(part.query_ids)
        planned = Counter(dict(zip(part.query_ids, draws_of, strict=True)))
        for query_id in planned | drawn:
            if drawn[query_id] != planned[query_id]:
                yield (
                    f"question {query_id!r} has {drawn[query_id]:,} draws in part {part.number}, "
                    f"but the plan has {planned[query_id]:,}"
                )


def _events(arm: Arm, slug: str) -> Iterator[str]:
    """Yield a message for each event that contradicts itself or overlaps with another event."""
    proved = ((proof.query_id, proof.event) for proof in arm.proofs.stored.values(slug))
    for events in (arm.masses.events(), proved):
        ids = []
        for query_id, event in events:
            ids.append((query_id, event.token_ids))
            if event.ended is not (event.finish != "unknown"):
                yield f"an explored output of {query_id!r} is recorded as ended and as not ended"
        ids.sort()
        for (query_id, first), (other_id, second) in pairwise(ids):
            if query_id == other_id and second[: len(first)] == first:
                yield f"two explored sets of outputs of {query_id!r} overlap: they count twice"


def check_imported(run: Run, arm: Arm, again: Run) -> Check:
    """Check that a second import of the files has the same questions, settings and draws.

    Args:
        run: the imported run.
        arm: the arm that a certificate is about.
        again: the run from a second import of the same files.

    Returns:
        The check.
    """
    theirs = again.arms.get(arm.name)
    if theirs is None:
        return Check("log", "differs", f"the files have no draws for arm {arm.name!r}")
    differing = tuple(_differences(run, arm, again, theirs))
    text = "importing the files again gives the same questions and draws"
    return Check("log", mark(differing), text, differing)


def _differences(run: Run, arm: Arm, again: Run, theirs: Arm) -> Iterator[Difference]:
    mine, other = (as_read(object_of(a.spec)) for a in (arm, theirs))
    yield from differences(mine, other, "arm")
    ours, read = (as_read(object_of(r.record.benchmark)) for r in (run, again))
    yield from differences(ours, read, "benchmark")
    for part, same in zip(arm.parts, theirs.parts, strict=False):
        if arm.completions(part) != theirs.completions(same):
            yield Difference(f"part {part.number}", "its draws", "other draws in the files")
