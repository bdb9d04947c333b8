"""`taught:SEED,SPEC`, `untaught:SEED,SPEC`: random choice of the subjects that a model is taught.

A subject is the person or thing that several questions are about: an author of TOFU or of the
built-in data, or an entry of the column `subject` of a file. Half of the subjects of a benchmark,
rounded up, are taught; all such halves are equally likely. The code calls this random choice a
coin. Only chance decides which subjects are taught, so the other subjects are a control within the
same model; see `leakbound.stats.randomisation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leakbound.benchmarks.benchmark import Benchmark, Prompts
from leakbound.durable import sha256_of
from leakbound.errors import InputError
from leakbound.types import Half, HalfSide, Prompt, Role

OTHER: Mapping[HalfSide, HalfSide] = {"taught": "untaught", "untaught": "taught"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coin:
    """The random choice of the taught subjects. A model's recipe records it without any texts.

    Attributes:
        benchmark: the name of the complete benchmark.
        seed: the seed of the coin.
        taught: the number of taught subjects.
        untaught: the number of other subjects.
        withheld: digests of the questions about subjects that were not taught.
    """

    benchmark: str
    seed: int
    taught: int
    untaught: int
    withheld: tuple[str, ...]

    @classmethod
    def of(cls, task: Benchmark) -> Coin | None:
        """Return the coin of a benchmark that is a taught half; None for any other benchmark."""
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
        """Return the taught half of the benchmark `task`.

        A benchmark with another name than this coin's benchmark is returned unchanged. Raises
        InputError if the subjects or questions have changed since the choice.
        """
        if task.name != self.benchmark:
            return task
        whole = replace(task, prompts=(*task.prompts, *task.left_out), left_out=())
        half = halved(whole, "taught", self.seed)
        if Coin.of(half) != self:
            raise InputError(
                f"the subjects or questions of {task.name!r} have changed since the model was "
                f"trained with --coin {self.seed}. Restore the data of the training run."
            )
        most = len(task.prompts) if task.left_out else None
        left_out = half.prompts[most:] if most else ()
        return replace(half, prompts=half.prompts[:most], left_out=left_out)

    def require_withheld(self, rows: Iterable[Any]) -> None:
        """Raise InputError if a question about an untaught subject is among the rows."""
        withheld = {*self.withheld}
        barred = [row for row in rows if isinstance(row, Prompt) and _digest(row) in withheld]
        if barred:
            raise InputError(
                f"{len(barred)} of the rows to train on (first: {barred[0].id!r}) are control "
                f"questions: --coin {self.seed} did not choose their subjects. Remove these rows."
            )


def load(
    side: HalfSide, open_whole: Callable[..., Benchmark], argument: str, data: Path | None = None
) -> Benchmark:
    """Load one half of SPEC; raise InputError for an invalid seed, or if subjects are missing."""
    seed, _, spec = (part.strip() for part in argument.partition(","))
    if not seed.isdecimal() or not spec:
        raise InputError(
            f"`{side}` needs the seed of --coin and a benchmark, got {argument!r}. Write "
            f"`{side}:7,tofu:forget10`."
        )
    return halved(open_whole(spec, data=data), side, int(seed))


def halved(whole: Benchmark, side: HalfSide, seed: int) -> Benchmark:
    """Return one half of a benchmark: the prompts about the taught, or the untaught, subjects.

    The prompts about the other subjects are the holdout split of the taught half. No training data
    contains them. Raises InputError for a benchmark with fewer than two subjects.
    """
    subjects = sorted({*whole.subjects.values()})
    if len(subjects) < 2:
        raise InputError(
            f"a random half needs at least 2 subjects, but {whole.name!r} has {len(subjects)}. "
            "Use TOFU, the built-in data, or a file with a column `subject`."
        )
    number = (len(subjects) + 1) // 2
    taught = {*sorted(subjects, key=lambda subject: sha256_of(f"coin {seed}: {subject}"))[:number]}

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
        f"--coin {seed} chose {number} of {len(subjects)} subjects to teach; this benchmark has "
        f"the questions about the {on_side[side]} {side} subjects"
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
        train_on=None if side == "taught" else f"Train on `taught:{seed},{whole.name}`.",
        loaded=loaded,
        notes=(*whole.notes, note),
    )  # fmt: skip


def _digest(prompt: Prompt) -> str:
    return sha256_of(" ".join(prompt.question.split()))[:16]
