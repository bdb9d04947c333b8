"""Certificates: a claim about a run, decided, written down, and checked by someone else."""

from __future__ import annotations

from leakbound.certificate.certificate import Certificate, Check, Difference
from leakbound.certificate.claim import Forecast
from leakbound.certificate.derivation import certify
from leakbound.certificate.verification import Verification, verify
from leakbound.store import sha256
from leakbound.store.claims import LeakClaim

__all__ = [
    "Certificate",
    "Check",
    "Difference",
    "Forecast",
    "LeakClaim",
    "Verification",
    "certify",
    "sha256",
    "verify",
]
