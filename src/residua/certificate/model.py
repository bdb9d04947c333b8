"""A run against its model: fingerprints, and log-probabilities by teacher forcing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from residua.certificate.checks import Check, Difference, as_json, differences, mark
from residua.engines import Prompting, open_engine
from residua.errors import InputError
from residua.store import Arm
from residua.types import Completion, Explores, Generate, Progress

# Parts of a fingerprint that move logits by roundings only.
_SURROUNDINGS = ("transformers", "torch", "row_budget")
_ROUNDING = 1e-9
NAME = "log-probabilities"


def open_for(arm: Arm, model: str, loading: Mapping[str, Any]) -> Generate:
    """The engine of a model, prompting and computing as the arm's model did."""
    said = arm.spec.get("fingerprint", {})
    prompting = Prompting.described(said.get("prompting", {}))
    return open_engine(model, prompting, dtype=said.get("dtype", "float32"), **loading)


def check_model(arm: Arm, engine: Generate, progress: Progress) -> Iterator[Check]:
    """Whether this is the model that drew the arm, and gives its completions their chances."""
    differing = tuple(differences(arm.spec.get("fingerprint"), as_json(engine.fingerprint)))
    near = all(d.where in _SURROUNDINGS for d in differing)
    status = "note" if differing and near else mark(differing)
    yield Check("model", status, "the model is the one that was sampled", differing)
    if not isinstance(engine, Explores):
        says = f"not checked: the engine {type(engine).__name__} gives no probabilities"
        yield Check(NAME, "note", says)
        return
    try:
        yield _log_probabilities(arm, engine, progress)
    except InputError as error:
        yield Check(NAME, "note", f"not checked: {error}")


def _log_probabilities(arm: Arm, engine: Explores, progress: Progress) -> Check:
    """Force every ended output through the model and compare its log-probability.

    Only where the tokenizer spells the text as it was drawn: other tokens, another chance.
    """
    slack = engine.margin / min(1.0, arm.decoding.temperature)
    same, left, differing = 0, 0, []
    stored = _ended(arm)
    queries = [query for query in arm.run.queries if query.id in stored]
    for i, query in enumerate(queries):
        progress("forcing", i, len(queries), "questions")
        known = stored[query.id]
        forced = engine.force([(query, one.text) for one in known], arm.decoding)
        for j, (then, now) in enumerate(zip(known, forced, strict=True)):
            if now is None or now.token_ids != then.token_ids:
                left += 1
            elif _agree(then, now, slack):
                same += 1
            else:
                where = f"question {query.id!r}, its ended output {j}"
                said = then.logprob_floor if then.logprob is None else then.logprob
                differing.append(Difference(where, said, now.logprob))
    progress("forcing", len(queries), len(queries), "questions")
    says = f"{same:,} outputs have the log-probability that the model gives them"
    if left:
        says += f"; {left:,} are spelt otherwise than by the tokenizer and were not compared"
    status = mark(differing) if same or differing else "note"
    return Check(NAME, status, says, tuple(differing))


def _ended(arm: Arm) -> dict[str, list[Completion]]:
    """Distinct completions and events, by query, with tokens that end and a known probability."""
    found: dict[str, dict[tuple[int, ...], Completion]] = {}
    for completion, query_id in _outputs(arm):
        if completion.token_ids is not None:
            found.setdefault(query_id, {}).setdefault(completion.token_ids, completion)
    return {query_id: list(outputs.values()) for query_id, outputs in found.items()}


def _outputs(arm: Arm) -> Iterator[tuple[Completion, str]]:
    """Drawn completions with a log-probability; events, of which only a lower bound is known."""
    for part in arm.parts:
        for row in arm.completions(part).to_pylist():
            query_id, ids = row.pop("query_id"), row["token_ids"]
            if row["finish_reason"] == "stop" and row["logprob"] is not None:
                yield Completion(**row | {"token_ids": ids and tuple(ids)}), query_id
        for row in arm.masses.table(part).to_pylist() if arm.exploring is not None else ():
            if row["ended"] and row["mass"] > 0:
                ids, floor = tuple(row["token_ids"]), math.log(row["mass"])
                event = Completion(text=row["text"], token_ids=ids, count=0, logprob_floor=floor)
                yield event, row["query_id"]


def _agree(then: Completion, now: Completion, slack: float) -> bool:
    """True unless one lies below what the other is at least, at any batch shape."""
    (one, one_floor), (other, other_floor) = (_known(c, slack) for c in (then, now))
    return one >= other_floor - _ROUNDING and other >= one_floor - _ROUNDING


def _known(completion: Completion, slack: float) -> tuple[float, float]:
    """The log-probability, infinite where only a bound is known; and what it is at least."""
    logprob = math.inf if completion.logprob is None else completion.logprob
    if completion.logprob_floor is not None:
        return logprob, completion.logprob_floor
    return logprob, logprob - slack * len(completion.token_ids or ())
