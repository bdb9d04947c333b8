"""From inputs to the queries of a run: what a source gives, filters leave, and IDS selects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.evaluation.drawing.sample import plan_unscored, sample_arm
from leakbound.evaluation.drawing.shares import share
from leakbound.evaluation.planning.models import ModelArm
from leakbound.evaluation.planning.plan import Prepared
from leakbound.inputs import SELECTION as PURPOSE
from leakbound.inputs import Accepted, gather, select
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
from leakbound.store.tables import completions_of
from leakbound.study import Rewritings
from leakbound.types import Completion, Decoding, Progress, Query, Sample


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """All that the queries of a run depend on beside its benchmark.

    `asked` is the study that they are part of. `target` opens the model under evaluation as the
    job of drawing its T = 1 answers; it is called where inputs are selected.
    """

    rewritings: Rewritings
    asked: Prepared
    target: Callable[[], ModelArm]
    progress: Progress

    @property
    def record(self) -> InputsRecord:
        """As run.json holds it: runs with the same ask the same queries."""
        asked = asdict(self.rewritings) | {"source": self.rewritings.source_name}
        asked |= {"queries": self.number, "seed": self._seed}
        return InputsRecord(**asked, fingerprint=self.rewritings.fingerprint)

    @property
    def number(self) -> int:
        """How many rewritings of a question are tried."""
        fresh = self.rewritings.design == "fresh"
        return self.asked.drawing.n if fresh else self.rewritings.queries

    def queries(self, out: Path, benchmark: Benchmark, record: RunRecord) -> list[Query]:
        """Each question followed by its rewritings, for the run that `record` begins at `out`.

        What was found out before an earlier command was stopped is read again; MixError where
        that was another command.
        """
        accepted = read_accepted(out, record)
        if accepted is None:
            accepted = self._gathered(benchmark)
            write_accepted(out, record, accepted)
        queries = _queries(benchmark, accepted, self.rewritings.kind)
        return self._selected(out, benchmark, record, queries) if self.rewritings.ids else queries

    def shares(self, queries: Sequence[Query]) -> QueryShares:
        """How many outputs each of these gets."""
        return share(queries, self.rewritings.design, self.asked.drawing.n, self._seed)

    @property
    def _seed(self) -> int:
        return self.asked.study.seed

    def _gathered(self, benchmark: Benchmark) -> tuple[Accepted, ...]:
        loading = self.asked.study.settings.loading
        source = self.rewritings.open(loading, self.asked.study.trusted)
        self.progress("rewriting", 0, len(benchmark.prompts), "questions")
        # A list may be about questions that a limit left out, which is no misspelling.
        known = benchmark.prompts + (benchmark.left_out if source.finite else ())
        filters = self.rewritings.filters(loading)
        found = gather(source, known, number=self.number, seed=self._seed, filters=filters)
        self.progress("rewriting", len(benchmark.prompts), len(benchmark.prompts), "questions")
        return tuple(found[: len(benchmark.prompts)])

    def _selected(
        self, out: Path, benchmark: Benchmark, record: RunRecord, queries: list[Query]
    ) -> list[Query]:
        """Input selection; its draws are those of a run of their own, which is never scored."""
        rewritten = {query.prompt_id for query in queries if query.source != "original"}
        tried = [query for query in queries if query.prompt_id in rewritten]
        if not tried:
            return queries
        job = self.target()
        job.engine.check(tried, job.decoding)
        run = Run.create(out / SELECTION / "ids", benchmark.prompts, tried, record)
        draws = dict.fromkeys((query.id for query in tried), self.rewritings.ids_draws)
        arm = plan_unscored(run, job, draws, self._seed)
        sample_arm(arm, job.engine, self.progress, purpose=PURPOSE)
        number, criterion = self.rewritings.ids_draws, self.rewritings.criterion
        found = select(
            tried, lambda *_: _answers(arm), draws=number, seed=self._seed, criterion=criterion
        )
        write_selections(out, found.values())
        kept = {query.id for one in found.values() for query in one.kept}
        return [query for query in queries if query.id in kept or query.prompt_id not in rewritten]


def selecting(job: ModelArm) -> ModelArm:
    """The job whose draws select inputs: the same model, nothing of its law cut off."""
    plain = Decoding(max_new_tokens=job.decoding.max_new_tokens)
    return replace(job, key=SELECTING, decoding=plain)


def _queries(benchmark: Benchmark, accepted: Sequence[Accepted], source: str) -> list[Query]:
    """Every question, and after it its rewritings, which open the answer as it does."""
    found: dict[str, Query] = {}
    for prompt, one in zip(benchmark.prompts, accepted, strict=True):
        question = Query.original(prompt)
        rewritten = (
            replace(question, id=f"{prompt.id}~{number:02d}", text=text, source=source)
            for number, text in enumerate(one.queries)
        )
        for query in (question, *rewritten):
            if query.id in found:
                raise InputError(
                    f"two queries would be called {query.id!r}: prompt ids that end in '~' and a "
                    "number are taken by rewritings. Rename the prompts."
                )
            found[query.id] = query
    return list(found.values())


def _answers(arm: Arm) -> list[Sample]:
    """The selection draws of every query that did not fail."""
    drawn: dict[str, list[Completion]] = {}
    missing: Counter[str] = Counter()
    for part, meta in zip(arm.parts, arm.meta(), strict=True):
        for query_id, completion in completions_of(arm.completions(part)):
            drawn.setdefault(query_id, []).append(completion)
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
