"""The figures of a run for trackers: TensorBoard, Weights & Biases, Trackio.

A tracker gets the statements about all questions, each with both its ends: never a bare point, and
no question, answer or completion.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec

from leakbound.errors import InputError
from leakbound.registry import suggestion
from leakbound.stats.about import Scope
from leakbound.store import EstimateRow, Run

_SCOPES: tuple[Scope, ...] = ("mean", "worst question")
_PROJECT = "leakbound"


def track(run: Run, to: Sequence[str]) -> dict[str, float]:
    """Send the statements of a run about all questions to trackers, and return them.

    TensorBoard's files go into $TENSORBOARD_LOGGING_DIR, or `tensorboard` in the run; the others
    have a run of that folder's name in the project "leakbound", or what their own environment
    says.

    Args:
        run: a run with estimates.
        to: names of trackers, see `TRACKERS`.

    Raises InputError for one that is unknown or not installed.
    """
    require_trackers(to)
    figures = figures_of(run)
    for name in to:
        TRACKERS[name](run, figures)
    return figures


def require_trackers(names: Sequence[str]) -> None:
    """Refuse what is no tracker or is not installed, before anything costly starts."""
    for name in names:
        if name not in TRACKERS:
            raise InputError(f"no tracker {name!r}. {suggestion(name, TRACKERS)}")
        if find_spec(name) is None:
            raise InputError(f"tracker {name!r} is not installed. Install it, or name no tracker.")


def figures_of(run: Run) -> dict[str, float]:
    """Value and ends of every statement about all questions, by arm, scorer and what it is of."""
    figures = {}
    for row in run.estimates.where(scope=_SCOPES):
        ends = {"value": row.value, "lower": row.lower, "upper": row.upper}
        for end, figure in ends.items():
            if figure is not None and math.isfinite(figure):
                figures[f"{_name(row)}/{end}"] = float(figure)
    return figures


def _name(row: EstimateRow) -> str:
    about = row.estimate.about
    words = [about.quantity, about.scope, *([f"beyond {about.beyond}"] if about.beyond else [])]
    numbers = [f"{each:g}" for each in (about.parameter, about.constant) if each is not None]
    return "/".join([row.arm, row.scorer, " ".join([*words, *numbers])])


def _tensorboard(run: Run, figures: Mapping[str, float]) -> None:
    folder = os.environ.get("TENSORBOARD_LOGGING_DIR") or str(run.path / "tensorboard")
    writer = import_module("tensorboard.summary").Writer(folder)
    for name, figure in figures.items():
        writer.add_scalar(name, figure, 0)
    writer.close()


def _logged(library: str) -> Callable[[Run, Mapping[str, float]], None]:
    """Trackers that share W&B's three calls."""

    def send(run: Run, figures: Mapping[str, float]) -> None:
        module = import_module(library)
        project = os.environ.get(f"{library.upper()}_PROJECT", _PROJECT)
        module.init(project=project, name=run.path.name, config=dict(run.record.study))
        module.log(dict(figures))
        module.finish()

    return send


TRACKERS: Mapping[str, Callable[[Run, Mapping[str, float]], None]] = {
    "tensorboard": _tensorboard,
    "trackio": _logged("trackio"),
    "wandb": _logged("wandb"),
}
"""The trackers by name, which is that of the package that each needs."""
