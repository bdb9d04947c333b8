"""The search for the input that leaks most: what it depends on, and what it tries.

It is a run of its own, `attack/search` in the folder of the run it serves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.evaluation.planning.attack_queries import FOLDER
from leakbound.evaluation.planning.models import ModelArm
from leakbound.evaluation.planning.names import arm_keys
from leakbound.evaluation.planning.plan import Prepared
from leakbound.inputs import NUMBER, gather
from leakbound.inputs.halving import FIRST, most_candidates
from leakbound.inputs.sources import RuleInputs
from leakbound.inputs.variants import (
    NEUTRAL,
    PREFIXES,
    SHOTS,
    Fits,
    Space,
    Variant,
    openers,
    shots,
    variants,
)
from leakbound.store import (
    ATTACK,
    ArmKey,
    AttackRecord,
    InputsRecord,
    Run,
    ScorerRecord,
    TriedVariant,
)
from leakbound.types import Decoding, Generate, Progress, Prompt, Query, Scorer, silent

CONFIDENCE = 0.9  # of the lower bounds that steer: a ranking, no statement
FORWARDS = 0.5
"""What a token of a draw costs in forwards: a few draws of one prompt share about half of them."""


@dataclass(frozen=True, slots=True)
class AttackSearch:
    """All that a search depends on beside the run it serves.

    `asked` is the study of that run, `job` its model under evaluation, `decodings` the stated grid.
    `proves`: whether it may prove instead of drawing.
    """

    budget: int
    asked: Prepared
    job: ModelArm
    decodings: tuple[Decoding, ...]
    proves: bool = False
    progress: Progress = silent

    @property
    def scorer(self) -> Scorer:
        """What steers it."""
        return self.asked.drawing.steering

    @property
    def seed(self) -> int:
        """That of the study."""
        return self.asked.study.seed

    @property
    def template(self) -> str:
        """How plain prompts put a question, and so the pairs too that are shown before one."""
        return self.asked.study.settings.template or self.asked.benchmark.template

    @property
    def arms(self) -> dict[ArmKey, Decoding]:
        """The arms that draw from what is found."""
        return arm_keys(self.decodings, ATTACK)

    def record(self, inputs: InputsRecord | None) -> AttackRecord:
        """As the record of a run that asks these inputs holds it: the same searches alike."""
        return AttackRecord(
            budget=self.budget,
            first_draws=FIRST,
            confidence=CONFIDENCE,
            forwards_per_token=FORWARDS if self.proves else None,
            scorer=ScorerRecord.of(self.scorer),
            rewritings=RuleInputs.name if inputs is None else inputs.source,
            openers=tuple(NEUTRAL),
            pairs=SHOTS,
            prefixes=PREFIXES,
            template=self.template,
            decodings=self.decodings,
            seed=self.seed,
        )


def retained_pairs(benchmark: Benchmark) -> tuple[Prompt, ...]:
    """The benchmark's retained questions; none where it has no such split."""
    there = benchmark.role == "retain" or "retain" in benchmark.others
    return benchmark.split("retain") if there else ()


def tried(run: Run, hunt: AttackSearch) -> tuple[Run, dict[str, list[Variant]]]:
    """The run of the search, begun or as it was left, and the variants of each question."""
    path = run.path / FOLDER / "search"
    trial = Run.found(path, run.record)
    if trial is None:
        number = most_candidates(hunt.budget)
        fits = _fits(hunt.job.engine)
        made = [v for space in _spaces(run, hunt) for v in variants(space, number, hunt.seed, fits)]
        named = tuple(TriedVariant(v.query.id, v.decoding.name, v.shots) for v in made)
        queries = list(dict.fromkeys(variant.query for variant in made))
        trial = Run.create(path, run.prompts, queries, replace(run.record, tried=named))
    asked = {query.id: query for query in trial.queries}
    decodings = {decoding.name: decoding for decoding in hunt.decodings}
    fields: dict[str, list[Variant]] = {}
    for one in trial.record.tried:
        query = asked[one.query]
        variant = Variant(query=query, decoding=decodings[one.decoding], shots=one.shots)
        fields.setdefault(query.prompt_id, []).append(variant)
    return trial, fields


def _spaces(run: Run, hunt: AttackSearch) -> Iterator[Space]:
    """What may be changed about asking each question."""
    texts, retained = _rewritings(run, hunt.seed), retained_pairs(hunt.asked.benchmark)
    for prompt in run.prompts:
        yield Space(
            texts=(Query.original(prompt), *texts[prompt.id]),
            shots=((), *shots(prompt, retained, hunt.seed)),
            openers=openers(prompt, hunt.asked.benchmark.openers.get(prompt.id, ())),
            decodings=hunt.decodings,
            template=hunt.template,
        )


def _rewritings(run: Run, seed: int) -> dict[str, list[Query]]:
    """The rewritings that the run asks anyway, else those made by rules; repeats left out."""
    if run.record.inputs is not None:
        texts: dict[str, dict[str, Query]] = {prompt.id: {} for prompt in run.prompts}
        for query in run.queries:
            if query.source != "original":
                texts[query.prompt_id].setdefault(query.text, query)
        return {prompt_id: list(own.values())[:NUMBER] for prompt_id, own in texts.items()}
    accepted = gather(RuleInputs(), run.prompts, number=NUMBER, seed=seed)
    return {
        prompt.id: [
            replace(Query.original(prompt), text=text, source=RuleInputs.name)
            for text in one.queries
        ]
        for prompt, one in zip(run.prompts, accepted, strict=True)
    }


def _fits(engine: Generate) -> Fits:
    """Whether the engine takes a query: shown pairs may be too much for its context."""

    def fits(query: Query, decoding: Decoding) -> bool:
        try:
            engine.check([query], decoding)
        except InputError:
            return False
        return True

    return fits
