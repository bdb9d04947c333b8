"""Certificates: a claim about a run, decided, written down, and checked by someone else."""

from __future__ import annotations

from leakbound.certificate.certificate import Certificate, Check, Difference
from leakbound.certificate.claim import Forecast, LeakClaim, Share
from leakbound.certificate.derivation import certify
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
