"""Sizes of the experiments: which methods are compared on which data, read from sizes.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from leakbound.study import Rewritings
from leakbound.unlearning import TrainingSettings

RECALL = "rouge-l-recall"
CLOSE = "rouge-l-recall>=0.9"
TARGET, CONTROL = "target", "control"
NAMED = {"small": "builtin", "middle": "one-author", "full": "tofu"}
"""The papers' sizes, as the scripts of the claims name them."""
PLAIN, FEWER, REWORDED, COARSE = "plain", "fewer", "reworded", "grid of 200"
GRID = (0.2, 0.5, 0.8, 1.0)


@dataclass(frozen=True)
class Method:
    """A row of `methods` in sizes.yaml, which explains the fields."""

    objective: str
    after: str = TARGET
    settings: Mapping[str, Any] = field(default_factory=dict)
    like: str | None = None
    centres: int | None = None
    margin: float | None = None


@dataclass(frozen=True)
class Way:
    """One way to query a model: each temperature, top-p and c_T, with n draws per question.

    `rewritings`: other words that are queried too. `kept`: the number of retained questions, each
    in its first paraphrase, that replace the questions to forget.
    """

    n: int
    temperatures: tuple[float, ...] = (1.0,)
    top_ps: tuple[float, ...] = (1.0,)
    adaptive: tuple[float | None, ...] = (None,)
    rewritings: Rewritings | None = None
    kept: int | None = None


def ways_of(n: int, draws: Mapping[str, int]) -> dict[str, Way]:
    """Return every way to query a model, under its name."""
    fewer, grid = draws["fewer"], draws["grid"]
    return {
        PLAIN: Way(n),
        FEWER: Way(fewer),
        "n=200": Way(200),
        "grid": Way(grid, GRID, GRID),
        COARSE: Way(200, GRID, GRID),
        "temperatures": Way(fewer, GRID),
        "adaptive": Way(fewer, adaptive=(None, 0.9, 0.8, 0.7)),
        REWORDED: Way(fewer, rewritings=Rewritings("rules")),
        "selected": Way(fewer, rewritings=Rewritings("rules", ids=True, ids_draws=draws["ids"])),
        "kept": Way(draws["kept"], kept=24),
    }


@dataclass(frozen=True)
class Size:
    """A block of sizes.yaml, which explains the fields; `row` is the unchanged block."""

    benchmark: str
    learn: TrainingSettings | None
    forget: TrainingSettings
    scorers: tuple[str, ...]
    n: int
    layer: int
    dtype: str
    methods: Mapping[str, Method]
    utility: Mapping[str, tuple[str, int]]
    ways: Mapping[str, Way]
    rates: tuple[float, ...] = ()
    ablations: Mapping[str, Method] = field(default_factory=dict)
    more: Mapping[str, Method] = field(default_factory=dict)
    step: int = 1
    questions: int | None = None
    retained: int | None = None
    max_new_tokens: int | None = None
    keeps: str = ""
    first: int = 0
    queried_at: str = ""
    below: tuple[str, ...] = ()

    @property
    def every(self) -> Mapping[str, Method]:
        """Return all methods, by name."""
        return {**self.methods, **self.ablations, **self.more}

    @property
    def whole(self) -> bool:
        """Return whether the benchmark is queried unchanged."""
        return self.questions is None and self.step == 1 and self.max_new_tokens is None

    @property
    def leak(self) -> str:
        """Return the scorer that decides if an answer leaks."""
        return self.scorers[-1] if len(self.scorers) < 3 else self.scorers[1]


def size_of(row: Mapping[str, Any]) -> Size:
    """Read one block of sizes.yaml."""
    ways = ways_of(row["n"], row["draws"])
    made = {name: value for name, value in row.items() if name not in ("draws", "ways")}
    for name in ("learn", "forget"):
        made[name] = None if row[name] is None else TrainingSettings(**row[name])
    for name in ("methods", "ablations", "more"):
        made[name] = {
            method: Method(**each) if isinstance(each, dict) else Method(each)
            for method, each in row[name].items()
        }
    for name in ("scorers", "rates", "below"):
        made[name] = tuple(row.get(name, ()))
    made["utility"] = {name: tuple(each) for name, each in row["utility"].items()}
    made["ways"] = {name: ways[name] for name in row.get("ways", ways)}
    return Size(**made)


BLOCKS: Mapping[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("sizes.yaml").read_text(encoding="utf-8")
)
SIZES: Mapping[str, Size] = {name: size_of(row) for name, row in BLOCKS.items()}
OTHER_DATA: Mapping[str, Size] = {name: size for name, size in SIZES.items() if size.queried_at}
"""Other data that a size of the papers queries, for the claims that name it."""
