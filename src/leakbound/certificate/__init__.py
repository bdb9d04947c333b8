"""Certificates: decide a claim about a run, record the verdict, and verify it independently."""

from leakbound.certificate.certificate import Certificate as Certificate
from leakbound.certificate.certificate import Check as Check
from leakbound.certificate.certificate import Difference as Difference
from leakbound.certificate.claim import Forecast as Forecast
from leakbound.certificate.derivation import certify as certify
from leakbound.certificate.verification import Verification as Verification
from leakbound.certificate.verification import verify as verify
from leakbound.store import sha256 as sha256
from leakbound.store.claims import LeakClaim as LeakClaim
