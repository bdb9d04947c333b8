"""What a claim is: whose, what was measured of it, and the rule by which that decides it.

A claim says that one number lies above, or below, a limit. The rule is stated before anything is
drawn, and reads intervals alone: the models of all seeds agree with a claim where each of their
intervals lies on its side of the limit, contradict it where each lies on the other, and leave it
undecided otherwise. What a design could not have shown, or has no interval, is not tested.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Literal

import torch
from common import Lab, Stored
from sizes import BESIDE, CONTROL, NAMED, PLAIN, SIZES, TARGET

from leakbound.stats import Estimate
from leakbound.text.shown import above, below, number

Verdict = Literal["agrees", "contradicts", "undecided", "not tested"]
Side = Literal["above", "below"]
UNBOUNDED = "Its figures have no interval: they describe these models and draws."


@dataclass(frozen=True)
class Figure:
    """A number with its interval; at confidence 1 nothing of it was drawn, or it describes draws.

    value: the estimate; None where there is none.
    lower, upper: the ends.
    confidence: with which both hold.
    said: what else was read off the same runs.
    """

    value: float | None
    lower: float
    upper: float
    confidence: float
    said: str = ""

    @classmethod
    def exact(cls, value: float, said: str = "") -> Figure:
        """What is known without error: of greedy answers, of training logs, of draws as such."""
        return cls(value, value, value, 1.0, said)

    @classmethod
    def of(cls, estimate: Estimate, said: str = "") -> Figure:
        """An estimate of one number."""
        value = float(estimate.value)
        ends = float(estimate.lower), float(estimate.upper)
        return cls(None if value != value else value, *ends, estimate.confidence, said)

    @property
    def text(self) -> str:
        """The number with its interval, rounded outward."""
        if self.confidence == 1:
            return number(self.value)
        return f"{number(self.value)} [{below(self.lower)}, {above(self.upper)}]"


@dataclass(frozen=True)
class Rule:
    """The claim says that the figure is `side` the limit."""

    side: Side
    limit: float

    def verdict(self, figures: Sequence[Figure]) -> Verdict:
        """Of the figures of all seeds; of fewer than two, or without intervals, nothing."""
        if any(figure.confidence == 1 for figure in figures):
            return "not tested"
        if len(figures) < 2:
            return "undecided"
        if self.side == "above":
            holds = [figure.lower > self.limit for figure in figures]
            fails = [figure.upper <= self.limit for figure in figures]
        else:
            holds = [figure.upper < self.limit for figure in figures]
            fails = [figure.lower >= self.limit for figure in figures]
        return "agrees" if all(holds) else "contradicts" if all(fails) else "undecided"

    @property
    def text(self) -> str:
        """The rule, short."""
        return f"{self.side} {self.limit:.3g}".replace("-", "−")


@dataclass(frozen=True)
class Need:
    """A run that a claim rests on: a method asked in one way."""

    method: str
    asked: str = PLAIN


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    name: what `--only` takes.
    paper: whose claim it is.
    where: the figure, table or section.
    says: the claim, in our words.
    figure: what is measured of it.
    rule: what the figure has to be for the claim.
    needs: the runs that it rests on; a script makes them.
    measure: the figure of one seed, from stored runs.
    bears: what bears on reading it, whatever it turns out to be.
    untested: by size, "" for any, why its design could not have shown it, either way.
    sizes: at which alone it is tested; none: at any.
    small, middle: what else does so at that size alone, some of it seen in its runs.
    beside: which data it is about, of those that one size asks about beside its benchmark; "": the
        benchmark of any size.
    draws: how many draws a question it speaks of, or needs; a size that has fewer cannot test it.
    later: what is added to every seed: it is tested on others than those it was stated after.
    """

    name: str
    paper: str
    where: str
    says: str
    figure: str
    rule: Rule
    needs: tuple[Need, ...]
    measure: Callable[[Stored], Figure]
    bears: str = ""
    beside: str = ""
    untested: Mapping[str, str] = field(default_factory=dict)
    draws: int = 0
    sizes: tuple[str, ...] = ()
    small: str = ""
    middle: str = ""
    later: int = 0

    def __post_init__(self) -> None:
        if blank := [size for size, reason in self.untested.items() if not reason.strip()]:
            raise ValueError(f"{self.name}: `untested` gives no reason for {blank}; write it.")

    def verdict(self, size: str, figures: Sequence[Figure]) -> Verdict:
        """What the models of all seeds say of it."""
        return "not tested" if self.reason(size, figures) else self.rule.verdict(figures)

    def reason(self, size: str, figures: Sequence[Figure]) -> str:
        """Why it is not tested at this size, by these figures; "" where it is."""
        design = self.untested.get(size) or self.untested.get("", "")
        alone = UNBOUNDED if self.rule.verdict(figures) == "not tested" else ""
        return " ".join(filter(None, (design, alone)))

    def seeds(self, given: Sequence[int]) -> tuple[int, ...]:
        """The seeds on which it is tested where others are tested on these."""
        return tuple(seed + self.later for seed in given)

    def of(self, size: str) -> bool:
        """True if it can be tested at this size."""
        if self.beside:
            return BESIDE[self.beside].beside == size
        return SIZES[NAMED[size]].n >= self.draws and size in (self.sizes or NAMED)

    def aside(self, size: str) -> str:
        """What bears on reading it at this size alone."""
        return {"small": self.small, "middle": self.middle}.get(size, "")

    def lab(self, lab: Lab) -> Lab:
        """Where its runs are."""
        return lab.beside(self.beside) if self.beside else lab


def plain(*methods: str) -> tuple[Need, ...]:
    """Methods asked as the papers ask."""
    return tuple(Need(method) for method in methods)


def asked(how: str, *methods: str) -> tuple[Need, ...]:
    """Methods asked in one way."""
    return tuple(Need(method, how) for method in methods)


def measured(claim: Claim, lab: Lab, seeds: Sequence[int]) -> tuple[Figure, ...]:
    """The figures of a claim by its own seeds; none where a run is not there yet."""
    if claim.beside and not (lab.folder / claim.beside / "runs").exists():
        return ()
    stored = [Stored(claim.lab(lab), seed) for seed in claim.seeds(seeds)]
    try:
        for need, one in product(claim.needs, stored):
            one.run(need.method, need.asked)
        return tuple(map(claim.measure, stored))
    except FileNotFoundError:
        return ()


def work(claims: Sequence[Claim], about: str) -> None:
    """Make what some claims rest on, each run once, and print what became of them."""
    options = _options(claims, about)
    if options.threads:
        torch.set_num_threads(options.threads)
    lab = Lab.open(
        NAMED[options.size],
        options.out / options.size,
        data=options.data,
        base=options.base,
        replicated=True,
    )
    known = [claim for claim in claims if claim.of(options.size)]
    chosen = [claim for claim in known if not options.only or claim.name in options.only]
    needed = [
        (claim.beside, need, seed)
        for claim in chosen
        for need in claim.needs
        for seed in claim.seeds(options.seeds)
    ]
    if not options.only:  # what every page shows beside the claims
        needed += [("", Need(name), seed) for name in (TARGET, CONTROL) for seed in options.seeds]
    for beside, need, seed in dict.fromkeys(needed):
        place = lab.beside(beside) if beside else lab
        place.run(need.method, seed, need.asked)
    for claim in chosen:
        figures = measured(claim, lab, options.seeds)
        told = "; ".join(figure.text for figure in figures)
        print(f"{claim.name}: {claim.verdict(options.size, figures)}. {claim.figure}: {told}")


def _options(claims: Sequence[Claim], about: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=NAMED, default="small")
    parser.add_argument("--out", type=Path, required=True, help="folder for models and runs")
    names = [claim.name for claim in claims]
    parser.add_argument("--only", nargs="+", choices=names, metavar="CLAIM", default=())
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1))
    parser.add_argument("--base", help="the model that learns the data (small: made here)")
    parser.add_argument("--data", type=Path, help="folder of the benchmark's files")
    parser.add_argument("--threads", type=int, help="threads for torch (default: its own choice)")
    options = parser.parse_args()
    named = [claim for claim in claims if claim.name in options.only]
    if aside := [claim.name for claim in named if not claim.of(options.size)]:
        parser.error(
            f"{', '.join(aside)}: not of --size {options.size}, for its data or its number of draws"
        )
    if options.base is None and options.size != "small":
        parser.error(f"--size {options.size} needs --base: a model folder, or its hub name")
    return options
