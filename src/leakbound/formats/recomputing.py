"""Is a log of OpenUnlearning what its own rows make it?"""

from __future__ import annotations

from pathlib import Path

from leakbound.formats.openunlearning import read_log, read_object
from leakbound.formats.openunlearning_check import Checked, check_log
from leakbound.formats.openunlearning_lm_eval import check_samples, holds_samples

_EVAL, _SUMMARY = "_EVAL.json", "_SUMMARY.json"


def recompute(log: str | Path, retrained: str | Path | None = None) -> list[Checked]:
    """Make every aggregate of an OpenUnlearning log anew from the values of its rows.

    The *_SUMMARY.json beside it is compared too. Returns what was stored and found of each entry.

    Args:
        log: a *_EVAL.json of TOFU, MUSE, lm-evaluation-harness or metrics of your own.
        retrained: the retrained model's log, for forget quality and privleak.
    """
    path = Path(log)
    beside = path.with_name(path.name.removesuffix(_EVAL) + _SUMMARY)
    if holds_samples(read_object(path)):
        return check_samples(path, beside)
    summary = read_log(beside) if path.name.endswith(_EVAL) and beside.is_file() else None
    reference = None if retrained is None else read_log(Path(retrained))
    return check_log(read_log(path), reference, summary)
