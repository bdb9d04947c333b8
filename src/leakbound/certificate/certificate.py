"""`Certificate`: a claim, its verdict, the numbers and the evidence; its file, and checks of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, cast

from leakbound import stats
from leakbound.certificate.claim import FORMAT, Forecast, Verdict
from leakbound.errors import InputError
from leakbound.store.claims import LeakClaim
from leakbound.store.files import digest_of, read_json
from leakbound.types import RULE, Json, JsonObject, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRecord:
    """The record of a question, as it was seen.

    Attributes:
        id: of its query; a digest where the id contains the question's text.
        value: the share of its draws that leak; None: no draw has a score.
        n: its draws.
        missing: how many of them have no score.
        proved: the probability that is proved without chance, at least; None where none is.
    """

    id: str
    value: float | None
    n: int
    missing: int
    proved: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """A lower bound of what a claim is about, from texts of known probability alone.

    Attributes:
        lower: of the mean or of the worst question, at least; it spends nothing of alpha.
        questions: of how many of them a leak is proved.
    """

    lower: float
    questions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A claim about a run, its verdict, and all that is needed to find that again.

    No text of the data set is in it.

    Attributes:
        claim: what was claimed.
        verdict: "pass", "refuted" or "inconclusive".
        sentence: what was found, in words.
        specification: in words, by heading, all that the numbers are about; the sentence is made
            of it.
        forecast: of the draws that would decide; None unless the verdict is open.
        estimate: the statement on the mean or the worst question that decides. Of a claim on record
            each end has all of alpha, so that its own confidence is 1 - 2 alpha.
        proved: what is known without chance; None where nothing is.
        reasons: why no bound lets the claim pass, or refutes it; empty: there is no reason.
        ledger: the number of draws in each class, by name.
        assumes: what is taken for granted, as `verify` cannot make it again, each to follow "that".
        questions: the record of each question.
        made_from: fingerprints of the questions, model, draws and scorer.
        files: the SHA-256 of each file the numbers rest on, by its path within the run.
        code: the version of this package, and the SHA-256 of it.
        rule: the version of the rules that decide what is counted and what matches.
        format: the rule that decided.
    """

    claim: LeakClaim
    verdict: Verdict
    sentence: str
    specification: Mapping[str, str]
    forecast: Forecast | None
    estimate: stats.Estimate
    proved: Proved | None
    reasons: tuple[str, ...]
    ledger: Mapping[str, int]
    assumes: tuple[str, ...]
    questions: tuple[QuestionRecord, ...]
    made_from: JsonObject
    files: Mapping[str, str]
    code: Mapping[str, str]
    rule: int = RULE
    format: str = FORMAT

    @property
    def alpha(self) -> float:
        """The error rate of either end."""
        alpha, among = 1 - self.claim.confidence, self.claim.among
        return alpha / (4 * len(among)) if among else alpha

    def to_dict(self) -> dict[str, Json]:
        """As JSON holds it, with a digest of all the rest."""
        values: dict[str, Json] = {
            **{f.name: to_json(getattr(self, f.name)) for f in fields(self)},
            "claim": self.claim.to_dict(),
            "estimate": to_json(self.estimate.to_dict()),
        }
        return {**values, "digest": digest_of(values)}


def read_values(file: Path) -> dict[str, Json]:
    """The values in a certificate's file, unjudged; InputError where it is none."""
    values = read_json(file, "Name a certificate.json that `leakbound certify` wrote.")
    stated = values.get("format") if isinstance(values, dict) else None
    if stated != FORMAT:
        raise InputError(
            f"`{file}` is no certificate: it has format {stated!r}, this version reads {FORMAT!r}. "
            "Name the file that `leakbound certify` wrote, or use the version that made it."
        )
    return dict(cast("JsonObject", values))


SLACK = 1e-12  # of recomputed numbers: the last digit may differ between machines
ABSENT = "nothing"

Status = Literal["ok", "differs", "note", "unchecked", "assumed", "open"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A thing of which a certificate says one thing, and the run another.

    Attributes:
        where: of the certificate it stands, as `bounds[3].upper`.
        certificate: its value there.
        found: its value by the run.
    """

    where: str
    certificate: Any
    found: Any


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: of the thing.
        status: "ok", "differs", "note" (worth knowing, refutes nothing), "unchecked" (asked for,
            but nothing of it could be compared, which verifies nothing), "assumed" (nothing could
            tell, and the certificate says so) or "open" (not asked for: it needs the model).
        says: a sentence for people.
        differences: that were seen.
    """

    name: str
    status: Status
    says: str
    differences: tuple[Difference, ...] = ()


def compared(name: str, says: str, certificate: Any, actual: Any) -> Check:
    """A check that two values are the same, numbers to the last digit but one."""
    differing = tuple(differences(certificate, actual))
    return Check(name, mark(differing), says, differing)


def mark(differing: Sequence[Difference]) -> Status:
    """The status of a check that found these differences."""
    return "differs" if differing else "ok"


def differences(certificate: Any, actual: Any, where: str = "") -> Iterator[Difference]:
    """Where two JSON values differ, leaf by leaf."""
    if isinstance(certificate, Mapping) and isinstance(actual, Mapping):
        for key in {**certificate, **actual}:
            below = f"{where}.{key}" if where else str(key)
            yield from differences(certificate.get(key, ABSENT), actual.get(key, ABSENT), below)
    elif isinstance(certificate, list) and isinstance(actual, list):
        for i, (left, right) in enumerate(zip_longest(certificate, actual, fillvalue=ABSENT)):
            yield from differences(left, right, f"{where}[{i}]")
    elif not _same(certificate, actual):
        yield Difference(where, certificate, actual)


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=0, abs_tol=SLACK)
    return type(value) is type(other) and bool(value == other)
