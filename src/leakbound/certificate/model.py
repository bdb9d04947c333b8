"""Verify a run with its model: compare fingerprints and log-probabilities, draw parts again.

A draw is a function of its key, the prefix and the model, so anyone with the model can repeat it.
The verifier chooses a fraction f of the M parts at random, after receiving the run. If m of the M
parts were altered before, the choice misses all m with probability C(M − m, f M) / C(M, f M). This
probability is a product of m factors (M − f M − i) / (M − i) ≤ 1 − f, so it is at most (1 − f)^m.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from random import Random, SystemRandom
from tempfile import TemporaryDirectory
from typing import Any

from leakbound.benchmarks import Benchmark
from leakbound.certificate.assumptions import SURROUNDINGS
from leakbound.certificate.certificate import (
    ABSENT,
    Check,
    Difference,
    Status,
    compared,
    differences,
    mark,
)
from leakbound.drawing.parts import machine
from leakbound.drawing.sample import work_of
from leakbound.drawing.stressed import FOLDER
from leakbound.durable import sha256_of
from leakbound.engines import Prompting, open_engine
from leakbound.engines.addresses import short_name
from leakbound.errors import InputError
from leakbound.planning.before_drawing import longest_answer
from leakbound.store import Arm, ExploredDraws, ImportedDraws, Part, Run
from leakbound.store.files import as_read
from leakbound.store.identity import probes_differ
from leakbound.store.tables import completions_of
from leakbound.store.trained import coin_of, has_recipe
from leakbound.stress import Bench, stresses_of
from leakbound.stress.bench import Subject
from leakbound.stress.relearned import Relearn
from leakbound.text.shown import below, many
from leakbound.types import (
    Completion,
    Draws,
    Fingerprint,
    Generate,
    JsonObject,
    Measures,
    Probes,
    Progress,
    Redraws,
    Retraces,
    counted,
    during,
    to_json,
)

_ROUNDING = 1e-9
LOG_PROBABILITIES = "log-probabilities"
_BOTH = "an engine that records tokens and log-probability of every output"


@dataclass(frozen=True, slots=True)
class Verifier:
    """Checks of an arm with the model that drew the arm, according to the run's record.

    `model` is the model before any stress. `loading` has the options for opening a named model.
    """

    run: Run
    arm: Arm
    model: str | Generate
    loading: Mapping[str, Any]
    progress: Progress

    def checks(self, slug: str, redraw: float | None) -> Iterator[Check]:
        """Yield checks of the model, the queries and the draws; `slug` is as in `check_model`."""
        yield from self._coin()
        with TemporaryDirectory() as folder:
            try:
                base, engine = yield from self._engines(Path(folder))
            except InputError as error:
                text = f"the stress {self.arm.key.stress!r} was not applied again: {error}"
                yield Check("stress", "unchecked", text)
                return
            yield from check_model(self.arm, slug, engine, self.progress)
            text = "the longest reference answer has the recorded number of tokens"
            longest = longest_answer(base, self.run.prompts)
            yield compared("limit", text, self.arm.spec.longest_answer, longest)
            if redraw is not None:
                yield check_draws(self.arm, engine, redraw, self.progress)

    def _coin(self) -> Iterator[Check]:
        """Yield a check that the model's recipe has the recorded random choice of subjects."""
        half = self.run.record.benchmark.half
        if half is None or not isinstance(self.model, str) or not has_recipe(Path(self.model)):
            return
        taught, untaught = half.numbers
        stated: JsonObject = {
            "benchmark": half.benchmark,
            "seed": half.seed,
            "taught": taught,
            "untaught": untaught,
        }
        coin = coin_of(self.model)
        recipe = ABSENT if coin is None else {name: getattr(coin, name) for name in stated}
        yield compared("coin", "the model's recipe has the same coin as the run", stated, recipe)

    def _engines(self, folder: Path) -> Generator[Check, None, tuple[Generate, Generate]]:
        """Return two engines of the arm's model: without and with the prompts of its stress.

        Yields the checks of the stress. Raises InputError if the stress cannot be applied again.
        """
        arm, key, study = self.arm, self.arm.key, self.run.study
        if not key.stress:
            base = self._opened(arm, self.model)
            return base, base
        named = (s for s in stresses_of(study.stress) if replace(key).stressed(s.spec) == key)
        if (stress := next(named, None)) is None:
            raise InputError(f"the study recorded in `{self.run.path}` does not name this stress")
        prompts, record = self.run.prompts, self.run.record.benchmark
        try:
            task = replace(study.load(), prompts=prompts)
        except InputError:  # the benchmark cannot be loaded again
            task = Benchmark(
                name=record.name,
                prompts=prompts,
                scorers=(),
                max_new_tokens=1,
                origin=record.origin,
            )
        bench = Bench(
            task=task,
            settings=replace(study.settings, **self.loading),
            seed=arm.spec.seed or 0,
            progress=self.progress,
        )
        stress.require(bench, self.model)
        subject = stress.model(bench, self.model, folder / "stressed")
        before = self.run.arm(key.unstressed)
        if subject is not self.model and before is not None:
            text = "the named model is the model that was sampled without stress"
            yield _same_model("before", before, self._opened(before, self.model), text)
        base = self._opened(arm, subject)
        made, kept = stress.engine(bench, base), self.run.path / FOLDER / key.stress / key.model
        if isinstance(stress, Relearn) and arm.spec.machine != machine(made) and kept.is_dir():
            yield Check("stress", "assumed", "training on another machine gives other weights")
            base = self._opened(arm, kept)
            made = stress.engine(bench, base)
        pairs = zip_longest(arm.spec.attack_queries, stress.queries(bench))
        others = [i for i, (stated, own) in enumerate(pairs, 1) if stated != own]
        text = f"the text of query {others[0]} differs" if others else "the texts are as recorded"
        yield Check("texts", "differs" if others else "ok", f"under {stress.spec}, {text}")
        return base, made

    def _opened(self, arm: Arm, model: Subject) -> Generate:
        """Return the engine of a model, with the arm's prompting and dtype."""
        if not isinstance(model, str | Path):
            return model
        fingerprint = Fingerprint.of(arm.spec.fingerprint)
        prompting = Prompting.described(fingerprint.prompting)
        dtype = fingerprint.dtype or "float32"
        with during(self.progress, f"loading {short_name(str(model))}"):
            return open_engine(str(model), prompting, dtype=dtype, **self.loading)


def check_model(arm: Arm, slug: str, engine: Generate, progress: Progress) -> Iterator[Check]:
    """Yield checks that this model drew the arm and that it computes the stored probabilities.

    `slug`: the file name of the scorer whose proofs are included.
    """
    yield _same_model("model", arm, engine, "the model is the model that was sampled")
    if isinstance(engine, Probes) and arm.spec.probe is not None:
        difference = probes_differ(arm.spec, engine.probe)
        text = "the probabilities of the model after fixed questions are as recorded"
        yield Check("probe", "ok" if difference is None else "differs", difference or text)
    try:
        yield _log_probabilities(arm, slug, engine, progress)
    except InputError as error:
        yield Check(LOG_PROBABILITIES, "unchecked", f"nothing was compared: {error}")


def _same_model(name: str, arm: Arm, engine: Generate, text: str) -> Check:
    """Compare a model's fingerprint with the fingerprint of an arm."""
    differing = tuple(differences(to_json(arm.spec.fingerprint), as_read(engine.fingerprint)))
    near = all(d.where in SURROUNDINGS for d in differing)
    return Check(name, "note" if differing and near else mark(differing), text, differing)


def _log_probabilities(arm: Arm, slug: str, engine: Generate, progress: Progress) -> Check:
    """Return a check that the model reproduces log-probability and text of every stored output.

    Outputs that the length limit ended are included. If the engine records tokens and
    log-probabilities, an output without them is reported as a difference, because the engine cannot
    have written it.
    """
    if isinstance(engine, Measures):
        engine.measure(arm.queries)
    if not isinstance(engine, Retraces):  # reads `engine.margin`, which is measured above
        text = f"nothing was compared: the engine {type(engine).__name__} gives no probabilities"
        return Check(LOG_PROBABILITIES, "unchecked", text)
    slack = engine.margin / min(1.0, arm.decoding.temperature)
    same, unreached, unknown, differing = 0, 0, 0, list[Difference]()
    stored, bare = _stored(arm, slug)
    if _records(arm, engine):
        differing += [Difference(where, "no tokens or no log-probability", _BOTH) for where in bare]
    else:
        unknown = len(bare)
    queries = [query for query in arm.queries if query.id in stored]
    for query in counted(progress, "forcing", queries, "questions"):
        outputs = stored[query.id]
        pairs = [(query, output.token_ids or ()) for output in outputs]
        forced = engine.force_ids(pairs, arm.decoding)
        for j, (then, now) in enumerate(zip(outputs, forced, strict=True)):
            where = f"output {j} of question {query.id!r}"
            if now is None and arm.decoding.truncated:
                unreached += 1
            elif difference := _difference(where, then, now, slack):
                differing.append(difference)
            else:
                same += 1
    total = same + len(differing) + unreached + unknown
    text = f"{same:,} of {total:,} outputs have the log-probability that the model gives them"
    if unreached:
        text += f"; {unreached:,} were not compared: rounding decides whether they are truncated"
    if unknown:
        text += f"; {unknown:,} were not compared: they lack recorded tokens or log-probabilities"
    status: Status = mark(differing) if same or differing else "unchecked"
    return Check(LOG_PROBABILITIES, status, text, tuple(differing))


def _records(arm: Arm, engine: Retraces) -> bool:
    """Return whether an engine of this kind drew the arm and thus recorded log-probabilities."""
    if isinstance(arm.spec.draws, ImportedDraws):
        return False
    kind: object = getattr(engine, "fingerprint", {}).get("engine")
    return arm.spec.fingerprint.get("engine") == kind


def _difference(
    where: str, then: Completion, now: Completion | None, slack: float
) -> Difference | None:
    """Return the difference between a stored output and the model's output for the same tokens.

    The result is None if they agree.
    """
    stored = then.logprob_floor if then.logprob is None else then.logprob
    if now is None:
        return Difference(where, stored, "no output of this decoding")
    texts = [f"{output.thought!r} {output.answer!r}" for output in (then, now)]
    if texts[0] != texts[1]:
        digests = [sha256_of(text) for text in texts]  # no text is shown
        return Difference(f"the text of {where}", *(f"SHA-256 {digest}" for digest in digests))
    ends = [[o.finish, len(o.token_ids or ()), o.refused, o.hidden] for o in (then, now)]
    if ends[0] != ends[1] or (now.finish != "unknown" and then.tokens != now.tokens):
        return Difference(f"the end of {where}", *ends)
    return None if _agree(then, now, slack) else Difference(where, stored, now.logprob)


def _stored(arm: Arm, slug: str) -> tuple[dict[str, list[Completion]], list[str]]:
    """Return the distinct outputs by query, and the places of outputs that cannot be compared."""
    outputs: dict[str, dict[Completion, None]] = {}
    bare = []
    for i, (query_id, completion) in enumerate(_outputs(arm, slug)):
        has_logprob = completion.logprob is not None or completion.logprob_floor is not None
        if completion.token_ids and has_logprob:
            outputs.setdefault(query_id, {})[replace(completion, count=0, chunk=0)] = None
        else:
            bare.append(f"question {query_id!r}, row {i} of the run")
    return {query_id: [*own] for query_id, own in outputs.items()}, bare


def _outputs(arm: Arm, slug: str) -> Iterator[tuple[str, Completion]]:
    """Yield the drawn completions, and the explored or proved outputs of known probability.

    `slug`: the file name of the scorer whose proofs are included.
    """
    for part in arm.parts:
        yield from completions_of(arm.completions(part))
    proved = ((proof.query_id, proof.event) for proof in arm.proofs.stored.values(slug))
    for query_id, event in (*arm.masses.events(), *proved):
        if event.mass > 0:
            floor, ids = math.log(event.mass), event.token_ids
            yield query_id, Completion.of(event, count=0, token_ids=ids, logprob_floor=floor)


def _agree(then: Completion, now: Completion, slack: float) -> bool:
    """Return whether two log-probabilities agree up to rounding errors.

    They agree if neither is below the lower bound of the other over all shapes of batches. If only
    the lower bound of a log-probability is known, the log-probability itself is set to infinity.
    """
    known = []
    for output in (then, now):
        logprob = math.inf if output.logprob is None else output.logprob
        floor = output.logprob_floor
        if floor is None:
            floor = logprob - slack * len(output.token_ids or ())
        known.append((logprob, floor))
    (first, first_floor), (second, second_floor) = known
    return first >= second_floor - _ROUNDING and second >= first_floor - _ROUNDING


DRAWS = "draws"


def require_share(share: float, model: object) -> None:
    """Raise InputError for a fraction of parts outside (0, 1], or a fraction without a model."""
    if not 0 < share <= 1:
        raise InputError(f"the fraction to draw again must be in (0, 1], got {share}.")
    if model is None:
        raise InputError(f"drawing {share} of the parts again needs the model. Add --with-model.")


def check_draws(
    arm: Arm, engine: Generate, share: float, progress: Progress, by: Random | None = None
) -> Check:
    """Return a check that draws a fraction of the arm's parts again, in their original batches.

    `share`: the fraction of the parts; at least one part is drawn. `by`: the generator that chooses
    the parts (None: this machine's source of unpredictable random numbers).
    """
    if why := _why_not(arm, engine):
        return Check(DRAWS, "unchecked", f"nothing was drawn again: {why}")
    assert isinstance(engine, Redraws)
    if isinstance(engine, Measures):
        engine.measure(arm.queries)
    parts = (by or SystemRandom()).sample(arm.parts, math.ceil(share * len(arm.parts)))
    differing = list[Difference]()
    excused = altered = 0
    try:
        for part in counted(progress, "drawing again", parts, "parts"):
            diffs, near = _compare(arm, part, engine)
            differing, excused, altered = differing + diffs, excused + near, altered + bool(diffs)
    except InputError as error:
        return Check(DRAWS, "unchecked", f"nothing was drawn again: {error}")
    share = len(parts) / len(arm.parts)
    one, three, ten = (below(1 - (1 - share) ** m) for m in (1, 3, 10))
    edge = f"; rounding explains {many(excused, 'difference')}" if excused else ""
    text = (
        f"{len(parts):,} of {len(arm.parts):,} parts, chosen at random now, were drawn again "
        f"({sum(part.draws for part in parts):,} draws{edge}); {len(parts) - altered:,} of these "
        "parts are equal to the stored parts. If 1, 3 or 10 parts were altered, this check finds "
        f"one with probability {one}, {three} or {ten}. It cannot detect a seed chosen after "
        "drawing"
    )
    return Check(DRAWS, mark(differing), text, tuple(differing))


def _why_not(arm: Arm, engine: Generate) -> str | None:
    """Return why this engine cannot draw the parts of an arm again, or None if it can."""
    if isinstance(arm.spec.draws, ImportedDraws):
        return "another tool made the draws"
    if isinstance(arm.spec.draws, ExploredDraws):
        return "after an exploration, the parts depend on its scorer"
    if not isinstance(engine, Redraws):
        return f"the engine {type(engine).__name__} cannot repeat its draws"
    drawn_on = {("device", meta.machine.get("device")) for meta in arm.meta()}
    then = [("engine", arm.spec.fingerprint.get("engine")), *sorted(drawn_on, key=str)]
    facts = {**engine.fingerprint, **machine(engine)}
    for name, value in [*then, ("dtype", arm.spec.fingerprint.get("dtype"))]:
        if facts.get(name) != value:
            return f"the {name} was {value}, the {name} here is {facts.get(name)}"
    return None


def _compare(arm: Arm, part: Part, engine: Redraws) -> tuple[list[Difference], int]:
    """Return the differences in a part's repeated draws, and the number that rounding explains."""
    queries = {query.id: query for query in arm.queries}
    stored = {**{query_id: [] for query_id in part.query_ids}, **arm.drawn_by_query([part])}
    part_queries = [queries[query_id] for query_id in part.query_ids]
    draws = work_of(arm.spec, part, arm.purpose)
    assert isinstance(draws, Draws)  # see `_why_not`
    redrawn = list(engine.redraw(part_queries, arm.decoding, draws, stored))
    differing = [
        Difference(
            f"question {result.query.id!r}, part {part.number}",
            "its outputs",
            f"different after {result.differs_after} tokens",
        )
        for result in redrawn
        if result.differs_after is not None
    ]
    strangers = sorted(set(stored) - set(part.query_ids))
    differing += [Difference(f"part {part.number}", f"outputs of {q!r}", "none") for q in strangers]
    return differing, sum(result.excused for result in redrawn)
