"""Choose the metrics, and list the texts whose probabilities they need.

To read a text is to compute the probabilities of its tokens after a query. The result is a reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import chain
from typing import Any

from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.metrics import METRICS, NAMES, TEXTS, Kind, Metric, Need, metrics_as
from leakbound.registry import suggestion
from leakbound.store import CONTROL_GREEDY, GREEDY, Arm, ArmKey, Place, Readings, Run
from leakbound.store.arm_key import Model
from leakbound.store.files import read_value
from leakbound.types import Prompt, Query

ALL = "all"
METRICS_FILE = "utility.json"
LEAST, MANY = 2, 2**31  # draws per question: minimum for a metric of draws, and "no limit"
ANSWER: Kind = "answer"
GREEDY_KIND = "greedy"  # the kind of a greedy answer to a question
_JOINED = [field.name for field in fields(Need) if field.name != "part"]

Prompts = tuple[Prompt, ...]


@dataclass(frozen=True, slots=True)
class WantedText:
    """A text to read after a query, with the key (`place`) of its stored reading."""

    place: Place
    query: Query
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requested metrics, and the data that they need.

    Attributes:
        metrics: the metrics by name.
        needs: the texts and numbers that the metrics need, by part of the benchmark.
        prompts: the prompts of each part in `needs`.
        own: the part of the benchmark whose questions are sampled.
        left_out: the metrics that "all" does not include, each with the reason.
        classifiers: for each metric with a classifier, the requested model ("": the default).
    """

    metrics: Mapping[str, Metric]
    needs: Mapping[str, Need]
    prompts: Mapping[str, Prompts]
    own: str
    left_out: Mapping[str, str]
    classifiers: Mapping[str, str]

    def texts(self) -> Iterator[WantedText]:
        """Yield every text to read, prompt by prompt."""
        for part, need in self.needs.items():
            for prompt in self.prompts[part]:
                query = Query.original(prompt)
                for kind in sorted(need.kinds):
                    for index, text in enumerate(TEXTS[kind](prompt)):
                        yield WantedText(Place.of(part, query, kind, index, text), query, text)

    def questions(self) -> Iterator[WantedText]:
        """Yield, with empty texts, the questions that need a greedy answer but are in no arm."""
        for part, need in self.needs.items():
            if need.greedy and part != self.own:
                for prompt in self.prompts[part]:
                    query = Query.original(prompt)
                    yield WantedText(Place.of(part, query, GREEDY_KIND), query, "")


def longest_first(texts: Iterable[WantedText]) -> list[WantedText]:
    """Sort prompts by the total length of their texts; the texts of a prompt stay together.

    Batches of similar lengths need little padding. A text that is too long for memory fails early.
    """
    every = list(texts)
    sizes: Counter[tuple[str, str]] = Counter()
    for text in every:
        sizes[text.place.part, text.place.prompt_id] += len(text.query.text) + len(text.text)
    return sorted(every, key=lambda text: -sizes[text.place.part, text.place.prompt_id])


def choose(names: Sequence[str], task: Benchmark, *, control: bool, draws: int = MANY) -> Wanted:
    """Return the metrics with these names; "all" means all metrics whose data are available.

    Args:
        names: names of metrics. The name of a metric that needs a classifier may specify the
            classifier, as in `forget_fluency:MODEL`. "all" omits such a metric unless its name is
            also listed.
        task: the benchmark.
        control: whether the run has a control.
        draws: the largest number of draws per question; 0 if nothing is sampled.

    Raises:
        InputError: an unknown name, or a metric without the data that it needs. The message names
            the metric and the missing data.
    """
    named = _named(names)
    metrics = metrics_as(task.compat)
    parts = {part: cache(load) for part, load in task.parts().items()}
    drawn = task.part if draws else None
    few = 0 < draws < LEAST
    chosen: dict[str, Metric] = {}
    left_out: dict[str, str] = {}
    for name in METRICS if ALL in named else named:
        metric = metrics[name]
        lacking = [_lacking(need, parts, drawn=drawn) for need in metric.needs]
        if few and any(need.draws for need in metric.needs):
            lacking.append(f"at least {LEAST} draws of each question")
        if metric.reference == "retrained" and not control:
            lacking.append("a control")
        if name not in named and _is_classified(metric):
            lacking.append(f"a classifier, which `--metrics {ALL},{name}` loads")
        why = next(filter(None, lacking), None)
        if why is None:
            chosen[name] = metric
        elif name in named:
            raise InputError(
                f"metric {name!r} needs {why}, which {task.name!r} does not have in this study. "
                "Add it, or omit the metric."
            )
        else:
            left_out[name] = why
    needs = _union(chain.from_iterable(metric.needs for metric in chosen.values()))
    return Wanted(
        metrics=chosen,
        needs=needs,
        prompts={part: parts[part]() for part in needs},
        own=task.part,
        left_out=left_out,
        classifiers={
            name: named[name] for name, metric in chosen.items() if _is_classified(metric)
        },
    )


def _named(names: Sequence[str]) -> dict[str, str]:
    """Return the named metrics, each with the classifier after its colon, or ""."""
    named = {}
    for spec in names:
        name, _, classifier = spec.partition(":")
        if name not in METRICS and spec != ALL:
            raise InputError(f"unknown metric {name!r}. {suggestion(name, METRICS)}")
        if classifier and not _is_classified(METRICS[name]):
            raise InputError(f"metric {name!r} uses no classifier, got {classifier!r}. Omit it.")
        named[name] = classifier
    return named


def _is_classified(metric: Metric) -> bool:
    """Return whether the metric needs a classifier."""
    return any(need.fluency for need in metric.needs)


def _lacking(
    need: Need, parts: Mapping[str, Callable[[], Prompts]], *, drawn: str | None
) -> str | None:
    """Return the first data that are missing for a need, or None. `drawn`: the sampled part."""
    if need.part not in parts:
        return f"a part {need.part!r}"
    if need.draws and need.part != drawn:
        return f"a fixed number of draws of {need.part!r}"
    try:
        prompts = parts[need.part]()
    except InputError as error:
        return f"a part {need.part!r} ({error})"
    moved = {ANSWER} if need.gradient_norm else frozenset[Kind]()
    for kind in sorted(need.kinds | need.compared | moved):
        bare = next((prompt.id for prompt in prompts if not TEXTS[kind](prompt)), None)
        if bare is not None:
            return f"the {NAMES[kind]} of every prompt of {need.part!r} ({bare!r} lacks one)"
    return None


def _union(needs: Iterable[Need]) -> dict[str, Need]:
    """Join the needs of each part. A text with a gradient also needs a reading."""
    union: dict[str, Need] = {}
    for need in needs:
        joined = union.get(need.part, Need(part=need.part, kinds=frozenset()))
        every = {name: getattr(joined, name) | getattr(need, name) for name in _JOINED}
        read = frozenset({ANSWER}) if need.gradient_norm else frozenset[Kind]()
        every |= {"kinds": every["kinds"] | read, "greedy": every["greedy"] or need.fluency}
        union[need.part] = Need(part=need.part, **every)
    return union


MODELS: dict[Model, ArmKey] = {"target": GREEDY, "control": CONTROL_GREEDY}
"""The arm of each model's greedy answers. This arm also stores the readings of the model."""


def require_known(arm: Arm, wanted: Wanted) -> Readings:
    """Return all readings of the model of `arm`; raise InputError if needed readings are missing.

    Texts, gradients and answers without stored results are missing.
    """
    readings = Readings(arm)
    if lacking := [text.place for text in chain.from_iterable(lacking_texts(readings, wanted))]:
        raise InputError(
            f"{arm.place} has no results for {len(lacking)} texts that these metrics need, such as "
            f"the {lacking[0].kind} text of {lacking[0].prompt_id!r}. Repeat the run's command "
            "with the same --metrics: only missing results are computed."
        )
    return readings


def lacking_texts(
    readings: Readings, wanted: Wanted
) -> tuple[list[WantedText], list[WantedText], list[WantedText]]:
    """Return the texts to read, the answers that need a gradient, and the questions to answer.

    Texts with stored results are left out.
    """
    texts = list(wanted.texts())
    answers = [
        t for t in texts if t.place.kind == ANSWER and wanted.needs[t.place.part].gradient_norm
    ]
    norms = {place: read.gradient_norm for place, read in readings.texts.items()}
    return (
        [text for text in texts if text.place not in readings.texts],
        [text for text in answers if norms.get(text.place) is None],
        [text for text in wanted.questions() if text.place not in readings.answers],
    )


def stored_metrics(run: Run) -> dict[str, Any]:
    """Return the content of `utility.json`, or {}; raise DamagedError if the file was changed."""
    again = f"Remove it, and run `leakbound evaluate {run.path} --only metrics`."
    return read_value(dict[str, Any], run.path / METRICS_FILE, again) or {}


def by_chance(models: Mapping[str, Mapping[str, Mapping[str, object]]]) -> list[str]:
    """Return a note on metrics that use an AUC of 1/2 because there is no retrained model."""
    chance = [model for model in models if model != "target" or "control" not in models]
    names = [
        name
        for name in models["target"]["metrics"]
        if name in METRICS and METRICS[name].reference == "retrained or chance"
    ]
    if not (chance and names):
        return []
    of = "" if len(chance) == len(models) else f" of {', '.join(chance)}"
    return [f"{', '.join(names)}{of}: compared with an AUC of 0.5, not with a retrained model"]
