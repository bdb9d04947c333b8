"""From inputs to the queries of a run: what a source gives, filters leave, and IDS selects.

How many of a question's outputs each of its queries gets follows from one of three designs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np

from leakbound.benchmarks import Benchmark
from leakbound.drawing.sample import plan_unscored, sample_arm
from leakbound.errors import InputError
from leakbound.inputs import SELECTION as PURPOSE
from leakbound.inputs import Accepted, gather, select
from leakbound.planning.models import ModelArm
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
from leakbound.store.tables import completions_of
from leakbound.study import Rewritings
from leakbound.types import (
    Completion,
    Decoding,
    Headway,
    JsonObject,
    Progress,
    Prompt,
    Query,
    Sample,
)


def share(queries: Sequence[Query], design: Design, n: int, seed: int) -> QueryShares:
    """n outputs a question among its queries.

    `allocated`: the query of each output drawn uniformly, the question itself among them; keyed
    by seed and prompt, so all arms of a run share alike. `fixed`: as many for each as n allows,
    and what is left of n over is not drawn. `fresh`: one for each rewriting.

    Raises InputError where n does not reach for every query of a `fixed` design, and where no
    question has a rewriting for a `fresh` one.
    """
    of_prompt: dict[str, list[Query]] = {}
    for query in queries:
        of_prompt.setdefault(query.prompt_id, []).append(query)
    draws: dict[str, int] = {}
    for prompt_id, own in of_prompt.items():
        draws |= _RULES[design](prompt_id, own, n, seed)
    if not draws:
        raise InputError(
            "no rewriting of any question was accepted, and design 'fresh' asks nothing else. See "
            "selection/inputs.json for the reasons; use another rewriter, or design 'allocated'."
        )
    return QueryShares(design, draws)


def _allocated(prompt_id: str, own: Sequence[Query], n: int, seed: int) -> Mapping[str, int]:
    key = blake2b(f"{seed}:allocation:{prompt_id}".encode(), digest_size=16).digest()
    generator = np.random.default_rng(int.from_bytes(key, "little"))
    counts = generator.multinomial(n, np.full(len(own), 1 / len(own))).tolist()
    return {query.id: count for query, count in zip(own, counts, strict=True)}


def _fixed(prompt_id: str, own: Sequence[Query], n: int, seed: int) -> Mapping[str, int]:
    if n < len(own):
        raise InputError(
            f"`n` is shared among the queries of a question, got {n} for the {len(own)} of "
            f"{prompt_id!r}. Raise it, lower the number of queries, or use design 'allocated'."
        )
    return dict.fromkeys((query.id for query in own), n // len(own))


def _fresh(prompt_id: str, own: Sequence[Query], n: int, seed: int) -> Mapping[str, int]:
    return {query.id: 1 for query in own if query.source != "original"}


_RULES = {"allocated": _allocated, "fixed": _fixed, "fresh": _fresh}


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
        settings = asdict(self.rewritings) | {"source": self.rewritings.source_name}
        settings |= {"queries": self.number, "seed": self._seed}
        return InputsRecord(**settings, fingerprint=self.rewritings.fingerprint)

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
        texts = [rewritings.queries for rewritings in accepted]
        queries = named(benchmark.prompts, texts, self.rewritings.kind)
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
        number = len(benchmark.prompts)
        self.progress(Headway("rewriting", 0, number, "questions"))
        # A list may be about questions that a limit left out, which is no misspelling.
        prompts = benchmark.prompts + (benchmark.left_out if source.finite else ())
        filters = self.rewritings.open_filters(loading)
        accepted = gather(source, prompts, number=self.number, seed=self._seed, filters=filters)
        self.progress(
            Headway("rewriting", len(benchmark.prompts), len(benchmark.prompts), "questions")
        )
        return tuple(accepted[: len(benchmark.prompts)])

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
        selections = select(
            tried, lambda *_: _answers(arm), draws=number, seed=self._seed, criterion=criterion
        )
        write_selections(out, selections.values())
        kept = {query.id for selection in selections.values() for query in selection.kept}
        return [query for query in queries if query.id in kept or query.prompt_id not in rewritten]


def selecting(job: ModelArm) -> ModelArm:
    """The job whose draws select inputs: the same model, nothing of its law cut off."""
    plain = Decoding(max_new_tokens=job.decoding.max_new_tokens)
    return replace(job, key=SELECTING, decoding=plain)


def named(
    prompts: Sequence[Prompt], rewritings: Sequence[Sequence[str]], source: str
) -> list[Query]:
    """Every question, and after it its rewritings, which open the answer as it does."""
    queries: dict[str, Query] = {}
    for prompt, texts in zip(prompts, rewritings, strict=True):
        question = Query.original(prompt)
        rewritten = (
            replace(question, id=f"{prompt.id}~{number:02d}", text=text, source=source)
            for number, text in enumerate(texts)
        )
        for query in (question, *rewritten):
            if query.id in queries:
                raise InputError(
                    f"two queries would be called {query.id!r}: prompt ids that end in '~' and a "
                    "number are taken by rewritings. Rename the prompts."
                )
            queries[query.id] = query
    return list(queries.values())


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


def begin(
    out: Path,
    benchmark: Benchmark,
    study: JsonObject | None = None,
    asking: QueryPlan | None = None,
    notes: Sequence[str] = (),
    slice: str | None = None,
) -> Run:
    """The run at `out` for this benchmark; begun, or found as the same command left it.

    Without `asking` its queries are the questions themselves. `study`, what was asked for,
    `notes` beside the benchmark's and the `slice` that is drawn are recorded.
    """
    record = RunRecord(
        benchmark=benchmark.fingerprint(),
        inputs=None if asking is None else asking.record,
        scorers=benchmark.scorers,
        notes=(*benchmark.notes, *notes),
        study=study or {},
        slice=slice,
    )
    if run := Run.resumed(out, record):
        return run
    if asking is None:
        queries = [Query.original(prompt) for prompt in benchmark.prompts]
    else:
        queries = asking.queries(out, benchmark, record)
    return Run.create(out, benchmark.prompts, queries, record)
