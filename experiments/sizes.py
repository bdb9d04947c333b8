"""What is compared on which data: the methods of each size, with their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from leakbound.demo import FORGET, LEARN
from leakbound.inputs import DRAWS as IDS_DRAWS
from leakbound.study import Rewritings
from leakbound.unlearning import TrainingSettings

RECALL = "rouge-l-recall"
CLOSE = "rouge-l-recall>=0.9"
TARGET, CONTROL = "target", "control"
NAMED = {"small": "builtin", "middle": "one-author", "full": "tofu"}
"""What the papers' scripts call the sizes."""


@dataclass(frozen=True)
class Method:
    """An objective; `after` names the method whose model it goes on from, else the target.

    `like`: the method whose learning rate it takes, else its own. `centres`: contrast centres of
    each question, made by rule; None: what the benchmark has. `margin`: a margin that an objective
    is given as `{tau}`, as a multiple of the mean distance of what is pushed apart.
    """

    objective: str
    after: str = TARGET
    settings: Mapping[str, Any] = field(default_factory=dict)
    like: str | None = None
    centres: int | None = None
    margin: float | None = None


@dataclass(frozen=True)
class Asked:
    """How a model is asked: every pair of temperature and top-p, of each c_T, in n draws.

    `rewritings`: other words that are asked too. `kept`: so many retained questions are asked in
    place of those to forget, each in the first paraphrase that the benchmark has of it.
    """

    n: int
    temperatures: tuple[float, ...] = (1.0,)
    top_ps: tuple[float, ...] = (1.0,)
    adaptive: tuple[float | None, ...] = (None,)
    rewritings: Rewritings | None = None
    kept: int | None = None


PLAIN, FEWER, REWORDED, COARSE = "plain", "fewer", "reworded", "grid of 200"
GRID = (0.2, 0.5, 0.8, 1.0)


def _asked(
    n: int, fewer: int, grid: int, kept: int = 128, ids_draws: int = IDS_DRAWS
) -> Mapping[str, Asked]:
    """By name: as the papers ask, in n draws, and where several laws are asked in fewer."""
    return {
        PLAIN: Asked(n),
        FEWER: Asked(fewer),
        "n=200": Asked(200),
        "grid": Asked(grid, GRID, GRID),
        COARSE: Asked(200, GRID, GRID),
        "temperatures": Asked(fewer, GRID),
        "adaptive": Asked(fewer, adaptive=(None, 0.9, 0.8, 0.7)),
        REWORDED: Asked(fewer, rewritings=Rewritings("rules")),
        "selected": Asked(fewer, rewritings=Rewritings("rules", ids=True, ids_draws=ids_draws)),
        "kept": Asked(kept, kept=24),
    }


@dataclass(frozen=True)
class Size:
    """A benchmark with the settings that suit it; `utility` are sets of what should be kept.

    `layer`: whose activations are pushed apart. `learn`, `forget`: how a target is trained, and
    how it is made to forget; without `learn` the base is asked as it is. `rates`: learning rates
    that are tried, the largest first; none: that of `forget`. `methods` stand in the table,
    `ablations` beside it, `more` in claims alone. `step`: every so many-th question is asked, in at
    most `max_new_tokens` (None: the benchmark's). `questions`: the first so many alone are learnt,
    forgotten and asked (None: all), beside the first `retained` of those to keep (None: all; of a
    part of the questions, as many). `keeps`: whose retain split is kept, where the benchmark has
    none. `first`: how many questions are left out before those. `beside`: which of the papers'
    sizes asks about it beside its own benchmark; "": none.
    """

    benchmark: str
    learn: TrainingSettings | None
    forget: TrainingSettings
    scorers: tuple[str, ...]
    n: int
    layer: int
    dtype: str  # of the weights while they are sampled; training holds float32
    methods: Mapping[str, Method]
    utility: Mapping[str, tuple[str, int]]
    rates: tuple[float, ...] = ()
    ablations: Mapping[str, Method] = field(default_factory=dict)
    more: Mapping[str, Method] = field(default_factory=dict)
    asked: Mapping[str, Asked] = field(default_factory=dict)
    step: int = 1
    questions: int | None = None
    retained: int | None = None
    max_new_tokens: int | None = None
    keeps: str = ""
    first: int = 0
    beside: str = ""

    @property
    def every(self) -> Mapping[str, Method]:
        """All methods, by name."""
        return {**self.methods, **self.ablations, **self.more}

    @property
    def whole(self) -> bool:
        """True if its benchmark is asked as it is."""
        return self.questions is None and self.step == 1 and self.max_new_tokens is None

    @property
    def leak(self) -> str:
        """The scorer by which an answer leaks or does not."""
        return self.scorers[-1] if len(self.scorers) < 3 else self.scorers[1]


def _swept(objective: str, weights: tuple[float, ...], like: str) -> dict[str, Method]:
    """An objective that ends in entropy optimisation, at several of its weights on forget."""
    return {
        f"NPO + entropy weight {x}": Method(f"{objective},forget={x}", like=like) for x in weights
    }


def _pushed(objective: str, like: str) -> dict[str, Method]:
    """Contrastive embedding whose push is active: over its margin, weight and centres."""
    return {
        **{f"CEL margin {m}": Method(objective, like=like, margin=m) for m in (0, 2)},
        **{f"CEL push {a}": Method(f"{objective},alpha={a}", like=like, margin=2) for a in (0, 1)},
        **{
            f"CEL push of {k} centres": Method(objective, like=like, margin=2, centres=k)
            for k in (1, 3)
        },
    }


SIZES = {
    "builtin": Size(
        benchmark="fictitious",
        learn=LEARN,
        forget=FORGET,
        scorers=(RECALL, "keyword:require=all", CLOSE),
        n=1024,
        layer=2,
        dtype="float32",
        methods={
            "GA": Method("ga"),
            "GD": Method("gd:retain=5"),
            "KL": Method("kl:retain=5"),
            "DPO": Method("dpo:retain=5"),
            "IDK": Method("idk:retain=5"),
            "NPO": Method("npo:beta=1.5,retain=5"),
            "SimNPO": Method("simnpo:retain=1"),
            "RMU": Method("rmu:layer=2"),
            "CEL": Method("cel:layer=2"),
            "NPO + entropy": Method("npo:beta=1.5,retain=5+entropy:retain=-0.1"),
            "NPO then entropy": Method("gd:forget=0,retain=5+entropy:retain=-0.1", after="NPO"),
        },
        utility={"R_r": ("retain", 168)},
        rates=(5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4),
        ablations={
            **{
                f"NPO then entropy lambda {x}": Method(
                    f"gd:forget=0,retain=5+entropy:forget={x},retain=-0.1",
                    after="NPO",
                    like="NPO then entropy",
                )
                for x in (0, 0.1, 0.5, 2, 5)
            },
            **{
                f"CEL {name} {x}": Method(f"cel:layer=2,{name}={x}", like="CEL")
                for name, values in {"tau": (0, 0.2, 1), "alpha": (0, 0.2, 1)}.items()
                for x in values
            },
            **{f"CEL centres {k}": Method("cel:layer=2", like="CEL", centres=k) for k in (1, 2, 3)},
        },
        more={
            **_swept("npo:beta=1.5,retain=5+entropy:retain=-0.1", (0.2, 2), like="NPO"),
            **{
                f"NPO + entropy keeping {x}": Method(
                    f"npo:beta=1.5,retain=5+entropy:retain=-{x}", like="NPO"
                )
                for x in (0, 0.5)
            },
            **_pushed("cel:layer=2,tau={tau}", like="CEL"),
        },
        asked=_asked(1024, 256, 1024),
    ),
    "tofu-mini": Size(
        benchmark="tofu-mini",
        learn=TrainingSettings(epochs=10, learning_rate=1e-4, batch_size=8),
        forget=TrainingSettings(epochs=5, learning_rate=5e-5, batch_size=8),
        scorers=(RECALL, CLOSE),
        n=256,
        layer=7,
        dtype="bfloat16",
        methods={
            "GA": Method("ga", settings={"learning_rate": 2e-5}),
            "GD": Method("gd", settings={"learning_rate": 2e-5}),
            "KL": Method("kl", settings={"learning_rate": 2e-5}),
            "DPO": Method("dpo"),
            "IDK": Method("idk"),
            "NPO": Method("npo"),
            "NPO + entropy": Method("npo+entropy"),
            "NPO then entropy": Method("entropy+gd:forget=0", after="NPO"),
            "SimNPO": Method("simnpo"),
            "RMU": Method("rmu:layer=7"),
            "CEL": Method("cel:layer=7"),
            # twice the mean square of what it pushes apart
            "CEL tau 60": Method("cel:layer=7,tau=60"),
        },
        utility={
            "R_r": ("retain", 40),
            "R_RA": ("tofu:real_authors", 100),
            "R_WF": ("tofu:world_facts", 117),
        },
        ablations={"NPO for 8 epochs": Method("npo", settings={"epochs": 8})},
        more={
            **_swept("npo+entropy:retain=-0.25", (0.2, 2), like="NPO"),
            **{f"NPO + entropy keeping {x}": Method(f"npo+entropy:retain=-{x}") for x in (0, 0.5)},
            **_pushed("cel:layer=7,tau={tau}", like="CEL"),
        },
        asked=_asked(256, 64, 128),
    ),
}
_MINI = SIZES["tofu-mini"]
SIZES["tofu"] = replace(
    _MINI,
    methods={  # a large model takes the papers' settings, not those found for a small one
        name: replace(method, settings={}) for name, method in _MINI.methods.items()
    },
    benchmark="tofu:forget05",
    learn=TrainingSettings(epochs=5, learning_rate=2e-5),
    forget=TrainingSettings(epochs=5),
    n=1024,
    asked=_asked(1024, 256, 1024),
    utility={
        "R_r": ("retain", 400),
        "R_RA": ("tofu:real_authors", 100),
        "R_WF": ("tofu:world_facts", 117),
    },
)

SIZES["one-author"] = replace(
    _MINI,
    benchmark="tofu:forget05",  # whose first author is not among those that settings were tried on
    questions=20,
    retained=60,
    max_new_tokens=64,
    learn=TrainingSettings(epochs=10, learning_rate=1e-4, batch_size=8, bf16=True),
    forget=TrainingSettings(epochs=5, learning_rate=5e-5, batch_size=4, bf16=True),
    n=128,
    asked=_asked(128, 32, 64, kept=32, ids_draws=16),
    utility={
        "R_r": ("retain", 40),
        "R_RA": ("tofu:real_authors", 40),
        "R_WF": ("tofu:world_facts", 40),
    },
)

SIZES["author"] = replace(  # what lasting.py puts under stress
    SIZES["one-author"],
    retained=40,
    max_new_tokens=48,
    methods={name: _MINI.methods[name] for name in ("NPO", "SimNPO", "RMU", "NPO + entropy")}
    | {"GD": Method("gd"), "WGA": Method("wga")},
    ablations={},
    more={},
    utility={"R_r": ("retain", 20)},
)
SIZES["another-author"] = replace(SIZES["author"], first=20)

_TAUGHT = replace(
    SIZES["one-author"],
    questions=None,
    retained=None,
    methods={name: _MINI.methods[name] for name in ("NPO", "NPO + entropy")},
    ablations={},
    more={},
    asked={PLAIN: Asked(128)},
    max_new_tokens=24,
    beside="middle",
)
_TABLED = replace(
    SIZES["tofu"],
    methods={
        name: SIZES["tofu"].methods[name] for name in ("GA", "KL", "GD", "DPO", "NPO", "RMU", "CEL")
    },
    ablations={},
    more={},
    asked={how: SIZES["tofu"].asked[how] for how in (PLAIN, REWORDED)},
    beside="full",
)
BESIDE: Mapping[str, Size] = {
    "harry-potter": replace(
        _TAUGHT,
        benchmark="harry-potter",
        scorers=(RECALL, "keyword"),
        step=2,
        keeps="muse:books",
        utility={"R_r": ("retain", 28)},
    ),
    "muse": replace(
        _TAUGHT,
        benchmark="muse:news",
        scorers=("rouge-l-f1", "contains"),
        step=4,
        utility={"R_r": ("retain", 25)},
    ),
    "jbb": replace(
        _TAUGHT,
        benchmark="jbb",
        learn=None,
        methods={},
        scorers=("refusal",),
        n=32,
        asked={PLAIN: Asked(32)},
        utility={},
    ),
    **{split: replace(_TABLED, benchmark=f"tofu:{split}") for split in ("forget01", "forget10")},
}
"""Other data that a size asks its model about, for the claims that name them."""
