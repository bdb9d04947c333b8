"""Runs on disk: completions, scores and estimates, written whole and never mixed."""

from pathlib import Path

from leakbound.store.arm import Arm
from leakbound.store.arm_key import (
    ATTACK,
    CONTROL,
    CONTROL_GREEDY,
    GREEDY,
    SELECTING,
    TARGET,
    ArmKey,
)
from leakbound.store.current import calibration_file, read_calibration
from leakbound.store.draws import leaking
from leakbound.store.estimates import ALL, EstimateRow, Estimates
from leakbound.store.files import (
    DamagedError,
    read_sealed,
    sha256,
    write_json,
    write_sealed,
    write_text,
)
from leakbound.store.inputs import (
    SELECTION,
    read_accepted,
    read_values,
    write_accepted,
    write_selections,
)
from leakbound.store.lock import LOCK, SOFT_LOCK, Holder, holder_of, holding, locked
from leakbound.store.masses import DrawnPart, Searched
from leakbound.store.plan import Look, Part, Plan, QueryShares
from leakbound.store.readings import Place, Read, Readings
from leakbound.store.record import (
    ArmDraws,
    ArmSpec,
    AttackRecord,
    CopiedFrom,
    ExploredDraws,
    FixedDraws,
    ImportedDraws,
    InputsRecord,
    OtherVersionError,
    Redaction,
    RunRecord,
    ScorerRecord,
    StoppedDraws,
    TriedVariant,
)
from leakbound.store.run import CERTIFICATE, Run
from leakbound.store.scores import ArmScores


def load(path: str | Path) -> Run:
    """Open a run that `evaluate` or `sample` has made.

    Args:
        path: its folder.

    Returns:
        The run.

    Raises:
        InputError: there is no run, or another version made it.
        DamagedError: a record, or the table of prompts or queries, is not as it was written.
        IncompleteError: the disk fails.
    """
    return Run.open(Path(path))


__all__ = [
    "ALL",
    "ATTACK",
    "CERTIFICATE",
    "CONTROL",
    "CONTROL_GREEDY",
    "GREEDY",
    "LOCK",
    "SELECTING",
    "SELECTION",
    "SOFT_LOCK",
    "TARGET",
    "Arm",
    "ArmDraws",
    "ArmKey",
    "ArmScores",
    "ArmSpec",
    "AttackRecord",
    "CopiedFrom",
    "DamagedError",
    "DrawnPart",
    "EstimateRow",
    "Estimates",
    "ExploredDraws",
    "FixedDraws",
    "Holder",
    "ImportedDraws",
    "InputsRecord",
    "Look",
    "OtherVersionError",
    "Part",
    "Place",
    "Plan",
    "QueryShares",
    "Read",
    "Readings",
    "Redaction",
    "Run",
    "RunRecord",
    "ScorerRecord",
    "Searched",
    "StoppedDraws",
    "TriedVariant",
    "calibration_file",
    "holder_of",
    "holding",
    "leaking",
    "load",
    "locked",
    "read_accepted",
    "read_calibration",
    "read_sealed",
    "read_values",
    "sha256",
    "write_accepted",
    "write_json",
    "write_sealed",
    "write_selections",
    "write_text",
]
