"""Compare a command with the command that began a run, so that a run never mixes experiments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from leakbound.errors import InputError, MixError
from leakbound.store.arm_key import ArmKey
from leakbound.store.record import ArmSpec, RunRecord
from leakbound.text.shown import some
from leakbound.types import (
    Fingerprint,
    Json,
    JsonObject,
    ProbedPrompt,
    probe_difference,
    to_json,
)

_LONG = 200  # largest number of characters of a value in a message
_FIRST = ("engine", "weights", "end_tokens")  # compared first: other differences follow
_IN_WORDS = {
    "fingerprint: engine: ": "the engine differs: ",
    "fingerprint: weights: ": "the weights differ: ",
    "fingerprint: end_tokens: ": "the end tokens differ: ",
    "fingerprint: code: ": "the model's code differs: ",
    "benchmark: sha256: ": "the questions differ: ",
}

# Fields that are recorded for an arm but do not identify it, because its draws have the same
# distribution on every machine. A probe is compared within rounding errors.
_NOT_IDENTITY = ("model", "place", "machine", "probe", "longest_answer")
_ROUNDINGS = {"float32": 1e-2, "float64": 1e-2}  # of a log-probability, between machines
_COARSE = 1.0  # the same in half precision


def identity(spec: ArmSpec) -> JsonObject:
    """Return the fields of an arm's spec that identify the arm."""
    names = (field.name for field in fields(spec) if field.name not in _NOT_IDENTITY)
    return {name: to_json(getattr(spec, name)) for name in names}


def require_same_n(path: Path, have: ArmSpec, want: ArmSpec) -> None:
    """Raise MixError if n differs from the planned n."""
    if have.draws == want.draws and have.plan.n != want.plan.n:
        raise MixError(
            f"`{path}` was begun with n = {have.plan.n:,}, but this command has n = "
            f"{want.plan.n:,}. If n changes after draws were made, the bounds are not valid. Use "
            "another --out, or --until to sample as many draws as needed."
        )


def require_other_model(path: Path, key: ArmKey, arms: Mapping[ArmKey, ArmSpec]) -> None:
    """Raise InputError if the control is the model under evaluation.

    The function compares the digests of the weights or, for served models, the addresses and names.
    If neither is known for a model, it raises no error.
    """
    mine = which_model(arms[key])
    for other, spec in arms.items():
        if other.is_control != key.is_control and mine is not None and which_model(spec) == mine:
            raise InputError(
                f"the control of `{path}` is the model under evaluation: both are {_shown(mine)}. "
                "Use a control that never saw the forget set, or omit the control."
            )


def which_model(spec: ArmSpec) -> str | None:
    """Return a text that identifies the model of an arm; None if nothing identifies it.

    The text is part of the key of draws, so it must not change.
    """
    fingerprint = spec.fingerprint
    if weights := fingerprint.get("weights"):
        return str(weights)
    if fingerprint.get("url") and fingerprint.get("model"):
        return f"{fingerprint['url']}#{fingerprint['model']}"
    return None


def probes_differ(spec: ArmSpec, probe: Sequence[ProbedPrompt] | None) -> str | None:
    """Describe how a model's probabilities of fixed texts differ from those recorded for the arm.

    The result is None if the probabilities are equal within rounding errors, or if one of the two
    models was never probed.
    """
    if spec.probe is None or probe is None:
        return None
    tolerance = _ROUNDINGS.get(Fingerprint.of(spec.fingerprint).dtype or "", _COARSE)
    return probe_difference(spec.probe, probe, tolerance)


def require_same_probe(path: Path, have: ArmSpec, want: ArmSpec) -> None:
    """Raise MixError if `probes_differ` finds a difference."""
    if difference := probes_differ(have, want.probe):
        raise MixError(
            f"`{path}` has draws of a model with this model's fingerprint but different "
            f"probabilities: {difference}. The run would mix two models. Use another --out, or "
            "restore the original model's files, libraries and device."
        )


def require_same(
    path: Path, have: Json, want: Json, where: str = "", other: str = "this one has"
) -> None:
    """Raise MixError for the first difference between two records in JSON."""
    if isinstance(have, Mapping) and isinstance(want, Mapping):
        keys = {**have, **want}
        for key in (*filter(keys.__contains__, _FIRST), *(k for k in keys if k not in _FIRST)):
            require_same(path, have.get(key), want.get(key), f"{where}{key}: ", other)
    elif to_json(have) != to_json(want):
        words = next((word for place, word in _IN_WORDS.items() if where.endswith(place)), "")
        raise MixError(
            f"`{path}` was made by a different command ({words}{where}it has {_shown(have)}, "
            f"{other} {_shown(want)}). Use another --out, or repeat the original command."
        )


def require_same_study(path: Path, have: RunRecord, first: Path, want: RunRecord) -> None:
    """Raise MixError if study, model or version of the slice at `path` differ from the first's."""
    require_same(path, _of_study(have), _of_study(want), other=f"`{first}` has")
    for key, spec in want.arms.items():
        require_same_probe(path, have.arms[key], spec)


def _of_study(record: RunRecord) -> JsonObject:
    """Return the fields of a record that are the same in all slices of a study."""
    arms = {f"arm '{key}'": identity(spec) for key, spec in record.arms.items()}
    members = {"study": record.study, "claims": to_json(record.claims), "files": {**record.files}}
    return {"leakbound": record.version, **record.questions, **members, **arms}


def _shown(value: Json) -> str:
    """Return a value for a message; digests, long lists and long texts are shortened."""
    if isinstance(value, list | tuple) and len(repr(value)) <= _LONG:
        return f"[{some([*value])}]"
    is_digest = isinstance(value, str) and re.fullmatch("[0-9a-f]{32,}", value)
    length = 12 if is_digest else _LONG
    text = value if isinstance(value, str) else repr(value)
    text = text if len(text) <= length else f"{text[:length]}…"
    return repr(text) if isinstance(value, str) else text
