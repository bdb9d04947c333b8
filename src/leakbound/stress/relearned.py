"""Stress a model by further training, to test whether forgotten content returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from leakbound.benchmarks import load_benchmark
from leakbound.errors import InputError
from leakbound.inputs.variants import keyed
from leakbound.stress.bench import Bench, OfWeights, Subject
from leakbound.study.settings import prompting_of
from leakbound.types import Prompt, Role, renamed
from leakbound.types.decoding import require

if TYPE_CHECKING:
    from leakbound.unlearning import TrainingSettings

_ROLES: tuple[Role, ...] = ("retain", "forget")


@dataclass(frozen=True, slots=True)
class Relearn(OfWeights):
    """Teach the model some rows by full fine-tuning (AdamW with a cosine schedule).

    Attributes:
        file: a file that `load_benchmark` reads; all its rows are taught.
        retain: instead of `file`, the number of retain rows of the benchmark to teach.
        forget: instead of `file` and `retain`, the number of forget rows to teach. The seed chooses
            the rows.
        epochs: the number of passes over the rows.
        rate: the maximum learning rate.
        evaluated: whether evaluated questions may be taught. If "no", `forget` uses only rows that
            `--limit` excluded from the evaluation.
    """

    file: str = ""
    retain: int = 0
    forget: int = 0
    epochs: int = 5
    rate: float = 1e-5
    evaluated: Literal["no", "yes"] = "no"
    name: ClassVar[str] = "relearn"

    def __post_init__(self) -> None:
        named = [name for name in ("file", *_ROLES) if getattr(self, name)]
        if len(named) != 1 or min(self.retain, self.forget) < 0:
            raise InputError(
                f"the stress `relearn` needs one source of rows, got {', '.join(named) or 'none'}. "
                "Write `relearn:retain=8`, `relearn:forget=8` or `relearn:rows.csv`."
            )
        require(self.epochs >= 1, "epochs", self.epochs, "at least 1")
        require(self.rate > 0, "rate", self.rate, "a positive number")

    def require(self, bench: Bench, model: Subject) -> None:
        """Refuse unavailable weights, missing rows, and rows that are evaluated."""
        OfWeights.require(self, bench, model)  # `slots` creates a new class: no super()
        rows = self.taught(bench)
        self._training(bench, rows).steps_of(len(rows))  # refuses a training without effect

    def taught(self, bench: Bench) -> tuple[Prompt, ...]:
        """Return the rows, in the order of their source."""
        if self.file:
            rows = load_benchmark(self.file).prompts
        else:
            rows = self._chosen(bench, "retain" if self.retain else "forget")
        if self.evaluated == "no":
            questions = {" ".join(prompt.question.split()) for prompt in bench.task.prompts}
            both = [row.id for row in rows if " ".join(row.question.split()) in questions]
            if both:
                raise InputError(
                    f"the stress {self.spec!r} teaches {len(both)} of the evaluated questions, "
                    f"such as {both[0]!r}. Leave them out, or add `evaluated=yes`."
                )
        return rows

    def _chosen(self, bench: Bench, role: Role) -> tuple[Prompt, ...]:
        number, rows = self.retain or self.forget, bench.task.to_train(role)
        if role == bench.task.role:
            rows = (*bench.task.left_out, *(rows if self.evaluated == "yes" else ()))
        if number > len(rows):
            raise InputError(
                f"the stress {self.spec!r} teaches {number} {role} rows, but only {len(rows)} rows "
                f"of {bench.task.name!r} may be taught. Teach fewer rows, evaluate fewer questions "
                "with --limit, or add `evaluated=yes` to teach evaluated questions too."
            )
        order = keyed(bench.seed, f"relearn:{role}").permutation(len(rows))[:number]
        return tuple(rows[i] for i in sorted(order))

    def _training(self, bench: Bench, rows: tuple[Prompt, ...]) -> TrainingSettings:
        from leakbound.unlearning import TrainingSettings

        settings = bench.settings
        return TrainingSettings(
            epochs=self.epochs,
            learning_rate=self.rate,
            batch_size=min(8, len(rows)),
            prompting=prompting_of(bench.task, template=settings.template, system=settings.system),
            seed=bench.seed,
            **settings.loading,
        )

    def make(self, bench: Bench, model: str, out: Path) -> None:
        from leakbound.unlearning import finetune

        rows, label = self.taught(bench), f"{self.spec} of {Path(model).name}"
        progress = renamed(bench.progress, f"{label}: {{}}".format)
        finetune(model, rows, out=out, settings=self._training(bench, rows), progress=progress)
