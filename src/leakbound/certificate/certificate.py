"""`Certificate`: a claim, its verdict and its evidence. Also its file, and results of checks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, cast

from leakbound import stats
from leakbound.certificate.claim import FORMAT, Forecast, Verdict, alpha_of
from leakbound.errors import InputError
from leakbound.store.claims import LeakClaim
from leakbound.store.files import digest_of, read_json
from leakbound.types import RULE, Json, JsonObject, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRecord:
    """The evidence about one question.

    Attributes:
        id: the id of the question's query; a digest of the id if it contains the question's text.
        value: the fraction of the question's scored draws that leak; None if no draw has a score.
        n: the number of draws of the question.
        missing: the number of the question's draws that have no score.
        proved: the lower bound without sampling error; None without a proof.
    """

    id: str
    value: float | None
    n: int
    missing: int
    proved: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """A lower bound that only the known probabilities of leaking texts prove.

    Attributes:
        lower: the lower bound on the mean or on the worst question. It has no sampling error, so it
            uses no part of alpha.
        questions: the number of questions with a proved leak.
    """

    lower: float
    questions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A claim about a run, its verdict, and all that is needed to derive the verdict again.

    A certificate contains no text of the data set. The sentence and the specification together
    state everything that decides the numbers.

    Attributes:
        claim: the claim.
        verdict: "pass", "refuted" or "inconclusive".
        sentence: the verdict and the deciding bound in at most 60 words.
        specification: everything that decides the numbers, as texts by heading.
        forecast: the number of draws that would decide the claim; None unless the bounds leave the
            claim open.
        estimate: the estimate of the mean or of the worst question that decides the claim. For a
            recorded claim, each of the two bounds has the complete error rate alpha, so the
            confidence of the estimate's interval is 1 - 2 alpha.
        proved: the lower bound without sampling error; None without a proof.
        reasons: why the claim does not pass although its upper bound is within the limit; usually
            empty.
        ledger: the number of draws in each class.
        assumes: the assumptions that `verify` cannot check. Each is a clause that completes "It is
            assumed that".
        questions: the evidence about each question.
        made_from: fingerprints of the questions, model, draws and scorer.
        files: the SHA-256 of each file that decides the numbers, by its path within the run.
        code: the version of this package, and its SHA-256.
        rule: the version of the rules for counting and matching.
        format: the format of the file, which determines how a claim is decided.
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
        """Return the error rate of each of the two bounds."""
        return alpha_of(self.claim)

    def to_dict(self) -> dict[str, Json]:
        """Return the fields as JSON values, with a digest of all fields."""
        values: dict[str, Json] = {
            **{f.name: to_json(getattr(self, f.name)) for f in fields(self)},
            "claim": self.claim.to_dict(),
            "estimate": to_json(self.estimate.to_dict()),
        }
        return {**values, "digest": digest_of(values)}


def read_values(file: Path) -> dict[str, Json]:
    """Return the fields of a certificate's file, unchecked.

    Raises InputError if the file is not a certificate, or is of another format.
    """
    values = read_json(file, "Name a certificate.json that `leakbound certify` wrote.")
    stated = values.get("format") if isinstance(values, dict) else None
    if stated != FORMAT:
        raise InputError(
            f"`{file}` is not a certificate: it has format {stated!r}, but this version "
            f"reads format {FORMAT!r}. Name the file that `leakbound certify` wrote, or use the "
            "version that wrote this file."
        )
    return dict(cast("JsonObject", values))


SLACK = 1e-12  # allowed difference: the last digit of a recomputed number may vary between machines
ABSENT = "nothing"

Status = Literal["ok", "differs", "note", "unchecked", "assumed", "open"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that differs between a certificate and its run.

    Attributes:
        where: the position of the value in the certificate, such as `questions[3].value`.
        certificate: the value in the certificate.
        actual: the value in the run.
    """

    where: str
    certificate: Any
    actual: Any


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a certificate.

    Attributes:
        name: the name of the check.
        status: "ok", "differs", "note" (a difference that does not refute the certificate),
            "unchecked" (requested, but nothing could be compared), "assumed" (an assumption of the
            certificate, which cannot be checked) or "open" (not requested, for example a check that
            needs the model).
        says: the result as a sentence.
        differences: the values that differ.
    """

    name: str
    status: Status
    says: str
    differences: tuple[Difference, ...] = ()


def compared(name: str, text: str, certificate: Any, actual: Any) -> Check:
    """Return a check that two values are equal; numbers may differ by `SLACK`."""
    differing = tuple(differences(certificate, actual))
    return Check(name, mark(differing), text, differing)


def mark(differing: Sequence[Difference]) -> Status:
    """Return the status of a check: "differs" if there are differences, else "ok"."""
    return "differs" if differing else "ok"


def differences(certificate: Any, actual: Any, where: str = "") -> Iterator[Difference]:
    """Yield every place at which two JSON values differ."""
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
