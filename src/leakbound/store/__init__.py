"""Runs on disk: completions, scores and estimates, written atomically and never mixed."""

from pathlib import Path

from leakbound.durable import sha256 as sha256
from leakbound.store.arm import Arm as Arm
from leakbound.store.arm_key import ATTACK as ATTACK
from leakbound.store.arm_key import CONTROL as CONTROL
from leakbound.store.arm_key import CONTROL_GREEDY as CONTROL_GREEDY
from leakbound.store.arm_key import GREEDY as GREEDY
from leakbound.store.arm_key import SELECTING as SELECTING
from leakbound.store.arm_key import TARGET as TARGET
from leakbound.store.arm_key import ArmKey as ArmKey
from leakbound.store.current import calibration_file as calibration_file
from leakbound.store.current import read_calibration as read_calibration
from leakbound.store.draws import leaking as leaking
from leakbound.store.estimates import ALL as ALL
from leakbound.store.estimates import EstimateRow as EstimateRow
from leakbound.store.estimates import Estimates as Estimates
from leakbound.store.files import DamagedError as DamagedError
from leakbound.store.files import write_json as write_json
from leakbound.store.files import write_sealed as write_sealed
from leakbound.store.files import write_text as write_text
from leakbound.store.inputs import SELECTION as SELECTION
from leakbound.store.inputs import read_accepted as read_accepted
from leakbound.store.inputs import read_values as read_values
from leakbound.store.inputs import write_accepted as write_accepted
from leakbound.store.inputs import write_selections as write_selections
from leakbound.store.lock import LOCK as LOCK
from leakbound.store.lock import SOFT_LOCK as SOFT_LOCK
from leakbound.store.lock import Holder as Holder
from leakbound.store.lock import holder_of as holder_of
from leakbound.store.lock import holding as holding
from leakbound.store.lock import locked as locked
from leakbound.store.masses import DrawnPart as DrawnPart
from leakbound.store.masses import Searched as Searched
from leakbound.store.plan import Look as Look
from leakbound.store.plan import Part as Part
from leakbound.store.plan import Plan as Plan
from leakbound.store.plan import QueryShares as QueryShares
from leakbound.store.readings import Place as Place
from leakbound.store.readings import Read as Read
from leakbound.store.readings import Readings as Readings
from leakbound.store.record import ArmDraws as ArmDraws
from leakbound.store.record import ArmSpec as ArmSpec
from leakbound.store.record import AttackRecord as AttackRecord
from leakbound.store.record import CopiedFrom as CopiedFrom
from leakbound.store.record import ExploredDraws as ExploredDraws
from leakbound.store.record import FixedDraws as FixedDraws
from leakbound.store.record import ImportedDraws as ImportedDraws
from leakbound.store.record import InputsRecord as InputsRecord
from leakbound.store.record import OtherVersionError as OtherVersionError
from leakbound.store.record import Redaction as Redaction
from leakbound.store.record import RunRecord as RunRecord
from leakbound.store.record import ScorerRecord as ScorerRecord
from leakbound.store.record import StoppedDraws as StoppedDraws
from leakbound.store.record import TriedVariant as TriedVariant
from leakbound.store.run import CERTIFICATE as CERTIFICATE
from leakbound.store.run import Run as Run


def load(path: str | Path) -> Run:
    """Open a run that `evaluate` or `sample` made.

    Args:
        path: the folder of the run.

    Returns:
        The run.

    Raises:
        InputError: there is no run, or another version made it.
        DamagedError: a record, or the table of prompts or queries, was changed.
        IncompleteError: the disk fails.
    """
    return Run.open(Path(path))
