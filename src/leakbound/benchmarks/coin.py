"""`taught:SEED,SPEC` and `untaught:SEED,SPEC`: a coin decides which subjects a model is taught.

A subject is whom or what several questions are about: an author of TOFU or of the built-in data,
the column `subject` of a file. Half of the subjects of a benchmark, rounded up, are taught, every
such half as likely as any other. Whoever was not taught is a control in the same model, as nothing
but the coin made the difference: see `leakbound.stats.randomisation`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leakbound.benchmarks.benchmark import Benchmark, Prompts
from leakbound.errors import InputError
from leakbound.types import Half, HalfSide, Prompt, Role

OTHER: Mapping[HalfSide, HalfSide] = {"taught": "untaught", "untaught": "taught"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coin:
    """The choice of who was taught, as the recipe of a model tells it, without a word of the data.

    Attributes:
        benchmark: the name of the whole.
        seed: that of the coin.
        taught: how many subjects were taught.
        untaught: how many were not.
        withheld: digests of the questions about those who were not taught.
    """

    benchmark: str
    seed: int
    taught: int
    untaught: int
    withheld: tuple[str, ...]

    @classmethod
    def of(cls, task: Benchmark) -> Coin | None:
        """That of a benchmark's taught half; None for any other."""
        half = task.half
        if half is None or half.side != "taught":
            return None
        others = task.split("holdout")
        return cls(
            benchmark=half.benchmark,
            seed=half.seed,
            taught=len({*half.subjects.values()}),
            untaught=half.others,
            withheld=tuple(map(_digest, others)),
        )

    def taught_of(self, task: Benchmark) -> Benchmark:
        """The half of the benchmark that was taught; any other benchmark is as it was.

        InputError where it asks other questions about the others than when the coin fell.
        """
        if task.name != self.benchmark:
            return task
        whole = replace(task, prompts=(*task.prompts, *task.left_out), left_out=())
        half = halved(whole, "taught", self.seed)
        if Coin.of(half) != self:
            raise InputError(
                f"{task.name!r} is not what it was when coin {self.seed} chose whom to teach: "
                "other subjects or questions. Name the data that the model was taught."
            )
        most = len(task.prompts) if task.left_out else None
        left_out = half.prompts[most:] if most else ()
        return replace(half, prompts=half.prompts[:most], left_out=left_out)

    def require_withheld(self, rows: Iterable[Any]) -> None:
        """Raise InputError where a question about somebody who is not taught is among the rows."""
        withheld = {*self.withheld}
        barred = [row for row in rows if isinstance(row, Prompt) and _digest(row) in withheld]
        if barred:
            raise InputError(
                f"{len(barred)} of the rows to train on are about subjects that coin {self.seed} "
                f"left untaught, the first {barred[0].id!r}: they are the control. Take them out."
            )


def load(
    side: HalfSide, open_whole: Callable[..., Benchmark], argument: str, data: Path | None = None
) -> Benchmark:
    """The half for `SEED,SPEC`; InputError for a seed that is none and for unnamed subjects."""
    seed, _, spec = (part.strip() for part in argument.partition(","))
    if not seed.isdecimal() or not spec:
        raise InputError(
            f"`{side}` takes the seed of a coin and a benchmark, got {argument!r}. Write "
            f"`{side}:7,tofu:forget10`."
        )
    return halved(open_whole(spec, data=data), side, int(seed))


def halved(whole: Benchmark, side: HalfSide, seed: int) -> Benchmark:
    """One side of a benchmark: of its evaluated prompts, those about the subjects on that side.

    The untaught are the holdout of the taught half, and nothing that is trained on has them.
    InputError for a benchmark that names no subjects, or fewer than two.
    """
    subjects = sorted({*whole.subjects.values()})
    if len(subjects) < 2:
        raise InputError(
            f"a coin decides by subject, and {whole.name!r} names {len(subjects)}. It takes TOFU's "
            "authors, the built-in ones, or the column `subject` of a file, two at least."
        )
    number = (len(subjects) + 1) // 2
    taught = {*sorted(subjects, key=lambda subject: _hash(f"coin {seed}: {subject}"))[:number]}

    def of(half: HalfSide, role: Role) -> Prompts:
        mine = (p for p in whole.prompts if (whole.subjects[p.id] in taught) == (half == "taught"))
        return tuple(replace(prompt, role=role) for prompt in mine)

    others: dict[Role, Callable[[], Prompts]] = {}
    if side == "taught":
        others = {**whole.others, "holdout": lambda: of("untaught", "holdout")}
    prompts = of(side, "forget" if whole.role == "holdout" else whole.role)
    loaded = whole.loaded and replace(whole.loaded, spec=f"{side}:{seed},{whole.loaded.spec}")
    subjects_of = {prompt.id: whole.subjects[prompt.id] for prompt in prompts}
    on_side = {"taught": number, "untaught": len(subjects) - number}
    note = (
        f"coin {seed} chose {number} of {len(subjects)} subjects to be taught; these are questions "
        f"about the {on_side[side]} that are {side}"
    )
    return replace(
        whole,
        name=f"{side}:{seed},{whole.name}",
        prompts=prompts,
        others=others,
        subjects=subjects_of,
        half=Half(
            benchmark=whole.name, seed=seed, side=side, subjects=subjects_of,
            others=on_side[OTHER[side]],
        ),
        held_out=None if side == "taught" else f"Train on `taught:{seed},{whole.name}`.",
        loaded=loaded,
        notes=(*whole.notes, note),
    )  # fmt: skip


def _digest(prompt: Prompt) -> str:
    return _hash(" ".join(prompt.question.split()))[:16]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
