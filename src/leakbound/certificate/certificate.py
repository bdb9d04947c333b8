"""`Certificate`: a claim, its verdict, the numbers and the evidence; and its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbound import stats
from leakbound.certificate.claim import LeakClaim
from leakbound.certificate.decision import Share, Verdict
from leakbound.certificate.forecast import Forecast
from leakbound.errors import InputError, require_no_fault
from leakbound.store.sealed import digest_of
from leakbound.types import Json, JsonObject, from_json, to_json

FORMAT = "leakbound certificate 2"
FILE = "certificate.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRecord:
    """What was seen of a question.

    id: of its query.
    value: the share of its draws that leak, or whose score exceeds x; None: nothing was decided.
    n, missing: its draws, and how many of them have no score.
    lower, upper: the bounds that a claim about every question rests on; None where it is about
        the mean.
    """

    id: str
    value: float | None
    n: int
    missing: int
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was claimed of a run, what was found, and all that is needed to find it again.

    `asked` says in words what the model was asked, rewritings too.
    `estimate` bounds the mean or the worst question at alpha/2 a side, `allocation` says so in
    numbers, and `questions` has one entry a question. `made_from` holds the fingerprints of the
    questions, model, draws and scorer, `files` the SHA-256 of each file the numbers rest on,
    `code` that of this package. `forecast` is there where the verdict is open. No text of the
    data set is in it.
    """

    claim: LeakClaim
    verdict: Verdict
    sentence: str
    asked: str
    forecast: Forecast | None
    estimate: stats.Estimate
    allocation: tuple[Share, ...]
    questions: tuple[QuestionRecord, ...]
    made_from: JsonObject
    files: Mapping[str, str]
    code: Mapping[str, str]

    def to_dict(self) -> dict[str, Json]:
        """As JSON holds it, with a digest of all the rest."""
        values: dict[str, Json] = {
            "format": FORMAT,
            "claim": self.claim.to_dict(),
            **{name: to_json(getattr(self, name)) for name in _READ},
            "estimate": to_json(self.estimate.to_dict()),
        }
        return {**values, "digest": digest(values)}

    @classmethod
    def from_dict(cls, values: JsonObject) -> Certificate:
        """The inverse of `to_dict`; InputError where something is missing or of another kind.

        The digest is not checked: `verify` does that.
        """
        try:
            known = {name: from_json(kind, values[name], name) for name, kind in _READ.items()}
            estimate = values["estimate"]
            if not isinstance(estimate, Mapping):
                raise TypeError(f"estimate is {estimate!r}")
            return cls(
                claim=LeakClaim.from_dict(values["claim"]),
                estimate=stats.Estimate.from_dict(estimate),
                **known,
            )
        except (KeyError, TypeError, AttributeError, InputError) as error:
            raise InputError(
                f"this is no whole certificate ({type(error).__name__}: {error}). "
                "Make it again with `leakbound certify`."
            ) from error


_READ: Mapping[str, Any] = {
    "verdict": Verdict,
    "sentence": str,
    "asked": str,
    "forecast": Forecast | None,
    "allocation": tuple[Share, ...],
    "questions": tuple[QuestionRecord, ...],
    "made_from": JsonObject,
    "files": Mapping[str, str],
    "code": Mapping[str, str],
}
"""The members that are read by their types alone."""


def digest(values: JsonObject) -> str:
    """SHA-256 over the canonical JSON of a certificate's values, their digest left out."""
    return digest_of(values)


def read_values(file: Path) -> dict[str, Json]:
    """The values in a certificate's file, unjudged; InputError where it is no certificate."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        require_no_fault(file, error)
        raise InputError(
            f"cannot read `{file}`: {error.strerror}. Make it with `leakbound certify`."
        ) from error
    except ValueError as error:
        raise InputError(f"`{file}` is not JSON ({error}). Name a certificate.json.") from error
    found = values.get("format") if isinstance(values, dict) else None
    if found != FORMAT:
        raise InputError(
            f"`{file}` is no certificate: it has format {found!r}, this version reads {FORMAT!r}. "
            "Name the file that `leakbound certify` wrote."
        )
    return dict(values)
