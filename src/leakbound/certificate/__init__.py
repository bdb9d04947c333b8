"""Certificates: a claim about a run, decided, written down, and checked by someone else."""

from __future__ import annotations

from leakbound.certificate.certificate import Certificate
from leakbound.certificate.checks import Check, Difference
from leakbound.certificate.claim import LeakClaim, Share
from leakbound.certificate.derivation import certify
from leakbound.certificate.forecast import Forecast
from leakbound.certificate.verification import Verification, verify
from leakbound.store import sha256

__all__ = [
    "Certificate",
    "Check",
    "Difference",
    "Forecast",
    "LeakClaim",
    "Share",
    "Verification",
    "certify",
    "sha256",
    "verify",
]
