"""`Certificate`: a claim, its verdict, the numbers and the evidence; and its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leakbound import stats
from leakbound.certificate.claim import Claim
from leakbound.certificate.decision import Share, Verdict
from leakbound.certificate.forecast import Forecast
from leakbound.errors import InputError, require_no_fault
from leakbound.store.sealed import digest_of

FORMAT = "leakbound certificate 2"
FILE = "certificate.json"


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

    claim: Claim
    verdict: Verdict
    sentence: str
    asked: str
    forecast: Forecast | None
    estimate: stats.Estimate
    allocation: tuple[Share, ...]
    questions: tuple[Mapping[str, Any], ...]
    made_from: Mapping[str, Any]
    files: Mapping[str, str]
    code: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it, with a digest of all the rest."""
        values = {
            "format": FORMAT,
            "claim": self.claim.to_dict(),
            "verdict": self.verdict,
            "sentence": self.sentence,
            "asked": self.asked,
            "forecast": None if self.forecast is None else asdict(self.forecast),
            "estimate": self.estimate.to_dict(),
            "allocation": [asdict(share) for share in self.allocation],
            "questions": [dict(row) for row in self.questions],
            "made_from": dict(self.made_from),
            "files": dict(self.files),
            "code": dict(self.code),
        }
        return {**values, "digest": digest(values)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Certificate:
        """The inverse of `to_dict`; InputError where something is missing or of another kind.

        The digest is not checked: `verify` does that.
        """
        try:
            forecast, estimate = values["forecast"], values["estimate"]
            return cls(
                claim=Claim.from_dict(values["claim"]),
                verdict=values["verdict"],
                sentence=values["sentence"],
                asked=values["asked"],
                forecast=None if forecast is None else Forecast(**forecast),
                estimate=stats.Estimate.from_dict(estimate),
                allocation=tuple(Share(**share) for share in values["allocation"]),
                questions=tuple(values["questions"]),
                made_from=values["made_from"],
                files=values["files"],
                code=values["code"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"this is no whole certificate ({type(error).__name__}: {error}). "
                "Make it again with `leakbound certify`."
            ) from error


def digest(values: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical JSON of a certificate's values, their digest left out."""
    return digest_of(values)


def read_values(file: Path) -> dict[str, Any]:
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
