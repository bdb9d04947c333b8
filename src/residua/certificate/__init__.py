"""Certificates: a claim about a run, decided, written down, and checked by someone else."""

from __future__ import annotations

from residua.certificate.certificate import FILE, Certificate
from residua.certificate.checks import Check, Difference
from residua.certificate.claim import Claim
from residua.certificate.decision import Share
from residua.certificate.derivation import certify
from residua.certificate.forecast import Forecast
from residua.certificate.verification import Verification, verify
from residua.store import sha256

__all__ = [
    "FILE",
    "Certificate",
    "Check",
    "Claim",
    "Difference",
    "Forecast",
    "Share",
    "Verification",
    "certify",
    "sha256",
    "verify",
]
