"""Compute the metrics of a run from stored readings and draws, without its models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from leakbound.benchmarks import Benchmark
from leakbound.benchmarks.benchmark import digest_of
from leakbound.errors import MixError
from leakbound.metrics import TEXTS, Item, Items, Values
from leakbound.planning.metrics import (
    GREEDY_KIND,
    METRICS_FILE,
    MODELS,
    Wanted,
    choose,
    require_known,
    stored_metrics,
)
from leakbound.planning.models import Fluency
from leakbound.scoring.score import answers_of
from leakbound.store import Arm, Place, Readings, Run, write_sealed
from leakbound.store.arm_key import Model
from leakbound.types import Progress, Prompt, Query, counted, silent

Texts = Mapping[str, Counter[str]]
"""The count of each answer, by prompt id."""


def measure_run(
    run: Run, task: Benchmark, names: Sequence[str], progress: Progress = silent
) -> Mapping[Model, Mapping[str, Values]]:
    """Compute metrics of the models of a run, and write them to `utility.json`.

    The only model that may be loaded is the classifier of a metric. The control, if any, is also
    measured. Metrics that need a retrained model use the control. If any question has no
    completions, no metric of the run is computed, and a note is added to the run.

    Raises InputError if readings or draws are missing; the message names them.
    """
    if not names:
        return {}
    if any(arm.failures for arm in run.arms.values()):
        run.notes.append("no metrics are computed, because some questions could not be sampled")
        return {}
    if task.fingerprint().sha256 != run.record.benchmark.sha256:
        raise MixError(
            f"the questions of {task.name!r} have changed since `{run.path}` was made. Restore the "
            "data of this benchmark."
        )
    models = [model for model, key in MODELS.items() if run.arm(key)]
    sampled = [_sampled(run, model) for model in models]
    draws = min(0 if arm is None else arm.plan.n for arm in sampled)
    wanted = choose(names, task, control="control" in models, draws=draws)
    fluency = Fluency.open(wanted, task, run.study.settings.loading)
    items = {model: _items(run, model, wanted, fluency) for model in models}
    values: dict[Model, dict[str, Values]] = {model: {} for model in models}
    for name, metric in counted(progress, "measuring", [*wanted.metrics.items()], "metrics"):
        for model in models:
            reference = items.get("control") if model == "target" else None
            values[model][name] = metric.value(items[model], reference)
    _write(run, wanted, values, fluency)
    return values


def _items(run: Run, model: Model, wanted: Wanted, fluency: Fluency | None) -> Items:
    """Return the items of every part for one model; an item has all values of one prompt."""
    greedy = run.arms[str(MODELS[model])]
    readings = require_known(greedy, wanted)
    own = wanted.needs.get(wanted.own)
    answers = answers_of([greedy] if own and own.greedy else [])
    sampled = _sampled(run, model)
    drawn = answers_of([sampled] if sampled and own and own.draws else [])
    items: dict[str, Sequence[Item]] = {}
    for part, need in wanted.needs.items():
        item = partial(
            _item, part=part, wanted=wanted, readings=readings, answers=answers, drawn=drawn
        )
        items[part] = [*map(item, wanted.prompts[part])]
        if need.fluency and fluency is not None:  # all answers in one batch
            values = fluency.of([item.greedy or "" for item in items[part]])
            pairs = zip(items[part], values, strict=True)
            items[part] = [replace(item, fluency=value) for item, value in pairs]
    return items


def _item(
    prompt: Prompt, *, part: str, wanted: Wanted, readings: Readings, answers: Texts, drawn: Texts
) -> Item:
    need, query = wanted.needs[part], Query.original(prompt)
    places = {
        kind: [Place.of(part, query, kind, *text) for text in enumerate(TEXTS[kind](prompt))]
        for kind in need.kinds
    }
    reads = {kind: [readings.texts[place] for place in of_kind] for kind, of_kind in places.items()}
    greedy = None
    if need.greedy and part == wanted.own:
        greedy = next(iter(answers.get(query.id, ())), None)
    elif need.greedy:
        greedy = readings.answers[Place.of(part, query, GREEDY_KIND)]
    return Item(
        prompt,
        {kind: tuple(read.reading for read in of_kind) for kind, of_kind in reads.items()},
        greedy,
        reads["answer"][0].gradient_norm if need.gradient_norm else None,
        drawn.get(query.id) if need.draws else None,
    )


def _sampled(run: Run, model: Model) -> Arm | None:
    """Return the first arm that samples the original questions; not greedy and not explored."""
    arms = (arm for arm in run.arms.values() if arm.key.model == model and arm.key.own_words)
    return next((arm for arm in arms if not (arm.explored or arm.decoding.greedy)), None)


def _write(
    run: Run, wanted: Wanted, values: Mapping[Model, Mapping[str, Values]], fluency: Fluency | None
) -> None:
    """Store the metrics with their models and data. Other entries of the file do not change."""
    arms = {model: {"metrics": by_name} for model, by_name in values.items()}
    fingerprint: dict[str, object] = {
        "models": {model: run.arms[str(MODELS[model])].spec.fingerprint for model in values},
        "parts": {
            part: {"prompts": len(prompts), "sha256": digest_of(prompts)}
            for part, prompts in wanted.prompts.items()
        },
    }
    if fluency is not None:
        fingerprint["classifier"] = fluency.to_dict()
    made = {"arms": arms, "needs": wanted.needs, "left_out": wanted.left_out}
    write_sealed(
        run.path / METRICS_FILE, {**stored_metrics(run), **made, "fingerprint": fingerprint}
    )
