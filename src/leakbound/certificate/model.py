"""A run against its model: fingerprints, and log-probabilities by teacher forcing."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from leakbound.certificate.checks import Check, Difference, Status, differences, mark
from leakbound.engines import Prompting, open_engine
from leakbound.errors import InputError
from leakbound.store import Arm, ImportedDraws
from leakbound.store.identity import probes_differ
from leakbound.store.sealed import as_read
from leakbound.store.tables import completions_of
from leakbound.types import (
    Completion,
    Fingerprint,
    Generate,
    Measures,
    Probes,
    Progress,
    Retraces,
    to_json,
)

# Parts of a fingerprint that move logits by roundings only.
_SURROUNDINGS = ("transformers", "torch", "row_budget")
_ROUNDING = 1e-9
NAME = "log-probabilities"
_BOTH = "an engine that records both of every output"


def open_for(arm: Arm, model: str, loading: Mapping[str, Any]) -> Generate:
    """The engine of a model, prompting and computing as the arm's model did."""
    said = Fingerprint.of(arm.spec.fingerprint)
    prompting = Prompting.described(said.prompting)
    return open_engine(model, prompting, dtype=said.dtype or "float32", **loading)


def check_model(arm: Arm, slug: str, engine: Generate, progress: Progress) -> Iterator[Check]:
    """Whether this is the model that drew the arm, and gives its completions their chances.

    `slug`: of the scorer whose proofs are among them.
    """
    differing = tuple(differences(to_json(arm.spec.fingerprint), as_read(engine.fingerprint)))
    near = all(d.where in _SURROUNDINGS for d in differing)
    status = "note" if differing and near else mark(differing)
    yield Check("model", status, "the model is the one that was sampled", differing)
    if isinstance(engine, Probes) and arm.spec.probe is not None:
        yield _probe(arm, engine)
    if not isinstance(engine, Retraces):
        says = f"nothing was compared: the engine {type(engine).__name__} gives no probabilities"
        yield Check(NAME, "unchecked", says)
        return
    try:
        yield _log_probabilities(arm, slug, engine, progress)
    except InputError as error:
        yield Check(NAME, "unchecked", f"nothing was compared: {error}")


def _probe(arm: Arm, engine: Probes) -> Check:
    """Compare what the model makes of fixed questions with what the sampled one made of them."""
    difference = probes_differ(arm.spec, engine.probe)
    says = "the model reads fixed questions as the one that was sampled did"
    return Check("probe", "ok" if difference is None else "differs", difference or says)


def _log_probabilities(arm: Arm, slug: str, engine: Retraces, progress: Progress) -> Check:
    """Force the tokens of every output through the model; compare log-probability and text.

    Also of those that the length limit ended: they are outputs like any other. One that lacks them
    where the engine records them differs: it was put there by something else.
    """
    if isinstance(engine, Measures):
        engine.measure(arm.queries)
    slack = engine.margin / min(1.0, arm.decoding.temperature)
    same, unreached, unknown, differing = 0, 0, 0, list[Difference]()
    stored, bare = _stored(arm, slug)
    if _records(arm, engine):
        differing += [Difference(where, "no tokens or no log-probability", _BOTH) for where in bare]
    else:
        unknown = len(bare)
    queries = [query for query in arm.queries if query.id in stored]
    for i, query in enumerate(queries):
        progress("forcing", i, len(queries), "questions")
        outputs = stored[query.id]
        forced = engine.force_ids([(query, ids) for ids, _ in outputs], arm.decoding)
        for j, (then, now) in enumerate(zip(outputs.values(), forced, strict=True)):
            where = f"question {query.id!r}, its output {j}"
            if now is None and arm.decoding.truncated:
                unreached += 1
            elif difference := _difference(where, then, now, slack):
                differing.append(difference)
            else:
                same += 1
    progress("forcing", len(queries), len(queries), "questions")
    total = same + len(differing) + unreached + unknown
    says = f"{same:,} of {total:,} outputs have the log-probability that the model gives them"
    if unreached:
        says += f"; {unreached:,} lie at the edge of what the decoding keeps, and were not compared"
    if unknown:
        says += f"; {unknown:,} have no tokens or no log-probability on record to compare"
    status: Status = mark(differing) if same or differing else "unchecked"
    return Check(NAME, status, says, tuple(differing))


def _records(arm: Arm, engine: Retraces) -> bool:
    """Whether what drew the arm tells tokens and log-probability of every output, as this does."""
    if isinstance(arm.spec.draws, ImportedDraws):
        return False
    told: object = getattr(engine, "fingerprint", {}).get("engine")
    return arm.spec.fingerprint.get("engine") == told


def _difference(
    where: str, then: Completion, now: Completion | None, slack: float
) -> Difference | None:
    """How an output differs from what the model makes of its tokens; None where it does not."""
    said = then.logprob_floor if then.logprob is None else then.logprob
    if now is None:
        return Difference(where, said, "no output of this decoding")
    if now.text != then.text:
        return Difference(f"{where}, its text", _sha256(then.text), _sha256(now.text))
    return None if _agree(then, now, slack) else Difference(where, said, now.logprob)


def _sha256(text: str) -> str:
    """A digest in place of the text, which a report of differences must not show."""
    return f"SHA-256 {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


Outputs = dict[tuple[tuple[int, ...], str], Completion]
"""By tokens, and the text that they are said to spell."""


def _stored(arm: Arm, slug: str) -> tuple[dict[str, Outputs], list[str]]:
    """Distinct outputs by query, and where there are some without tokens or log-probability."""
    found: dict[str, Outputs] = {}
    bare = []
    for i, (query_id, completion) in enumerate(_outputs(arm, slug)):
        known = completion.logprob is not None or completion.logprob_floor is not None
        if completion.token_ids and known:
            said = completion.token_ids, completion.text
            found.setdefault(query_id, {}).setdefault(said, completion)
        else:
            bare.append(f"question {query_id!r}, row {i} of the run")
    return found, bare


def _outputs(arm: Arm, slug: str) -> Iterator[tuple[str, Completion]]:
    """Completions that were drawn; outputs that were explored or searched for, known from below.

    What was searched for is that of the scorer with this slug.
    """
    for part in arm.parts:
        yield from completions_of(arm.completions(part))
    found = arm.proofs.table(slug)
    for table in [*arm.masses.tables(), *([] if found is None else [found])]:
        for row in table.to_pylist():
            if row["ended"] and row["mass"] > 0:
                ids, floor = tuple(row["token_ids"]), math.log(row["mass"])
                event = Completion(text=row["text"], token_ids=ids, count=0, logprob_floor=floor)
                yield row["query_id"], event


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
