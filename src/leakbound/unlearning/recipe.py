"""The recipe of a trained model (`recipe.json`), and the model card (`README.md`).

A command reuses an existing model that has the same recipe. Neither file contains text of the data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from leakbound import __version__
from leakbound.benchmarks import Coin
from leakbound.engines.prompting import Prompting
from leakbound.objective import Objective, Term
from leakbound.types import Embed, object_of
from leakbound.unlearning.rows import Questions, Splits, digest, prompts, splits_with
from leakbound.unlearning.settings import TrainingSettings
from leakbound.unlearning.weights import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that determines the weights of a trained model.

    `model` is the fingerprint of the initial model; it is empty until the model is loaded. `rows`
    are the rows to train on. `embedder` embeds rewritings for clustering (None: no rewritings are
    clustered). `coin` chose the taught subjects, in this or an earlier training run (None: no coin
    chose them).
    """

    objective: Objective
    settings: TrainingSettings
    prompting: Prompting
    rows: Splits
    coin: Coin | None = None
    model: Mapping[str, object] = field(default_factory=dict)
    embedder: Embed | None = None

    @property
    def questions(self) -> Questions:
        """The splits that have questions."""
        return {split: own for split, rows in self.rows.items() if (own := prompts(rows))}

    @property
    def inventive(self) -> Questions:
        """The splits for which the model makes up answers before it is trained."""
        splits = splits_with("invented", self.objective.needs)
        return {split: self.questions[split] for split in splits}

    def to_dict(self) -> dict[str, object]:
        """Return the contents of `recipe.json`, with only the number and the digest of the rows."""
        prompting = object_of(self.prompting)
        if self.prompting.thinking == "auto":  # recipes of earlier versions lack it
            prompting = {name: value for name, value in prompting.items() if name != "thinking"}
        recipe: dict[str, object] = {
            "name": self.objective.name,
            "model": self.model,
            "objective": self.objective.to_dict(),
            "settings": self.settings.to_dict(),
            "prompting": prompting,
            "rows": {
                split: {"number": len(rows), "sha256": digest(rows)}
                for split, rows in self.rows.items()
            },
        }
        if self.embedder is not None:
            fingerprint = getattr(self.embedder, "fingerprint", {})  # the model is stated already
            recipe["centres"] = {"embedder": self.embedder.name, "fingerprint": fingerprint}
        if self.coin is not None:
            recipe["coin"] = object_of(self.coin)
        if self.settings.selecting:
            recipe["selecting"] = asdict(self.settings.selecting)
        if self.inventive:
            recipe["inventing"] = asdict(self.settings.inventing)
        return recipe

    def text(self) -> str:
        """Return the text of `recipe.json`."""
        return json.dumps(self.to_dict(), indent=1)

    def departures(self, kept: Mapping[str, object]) -> list[str]:
        """Return the names of parts that differ from a stored recipe; `name` is not compared."""
        plain = json.loads(self.text())
        keys = dict.fromkeys([*plain, *kept])
        return [key for key in keys if key != "name" and kept.get(key) != plain.get(key)]


_LICENCE = re.compile(r"^license:[ \t]*([\w.-]+)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Base:
    """The initial model of a training run: its name, and its licence if its card has one."""

    name: str
    licence: str | None = None

    @classmethod
    def of(cls, location: str) -> Base:
        """Return the name of a model folder and the licence in its model card, or a hub name."""
        folder = Path(location)
        if not folder.is_dir():
            return cls(location)
        try:
            card = (folder / "README.md").read_text(encoding="utf-8", errors="replace")
        except OSError:
            card = ""
        _, _, head = card.partition("---\n")
        match = _LICENCE.search(head.partition("\n---")[0])
        return cls(folder.resolve().name, match and match[1])


_TEMPLATES = Environment(
    loader=PackageLoader("leakbound", "unlearning"),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
)


def model_card(
    recipe: Recipe,
    losses: Sequence[float],
    seconds: float,
    *,
    centres: str = "",
    base: Base,
    notes: Sequence[str] = (),
) -> str:
    """Return the model card: a README in Markdown with the metadata for model hubs.

    Args:
        recipe: the recipe. The card states only the number and the digest of its rows, because it
            must not contain text of rows.
        losses: the value of the objective at each step.
        seconds: the duration of the training.
        centres: a description of the contrast centres (empty: there are no centres).
        base: the initial model, whose licence applies to the new model.
        notes: sentences about the training.
    """
    settings = recipe.settings.to_dict()
    return _TEMPLATES.get_template("card.txt").render(
        recipe=recipe,
        taught=recipe.objective.name == "finetune",
        terms=[(term, _settings(term)) for term in recipe.objective.terms],
        digests={split: digest(rows)[:16] for split, rows in recipe.rows.items()},
        settings={name: value for name, value in settings.items() if name != "weights"},
        weights=_weights(recipe.settings.weights),
        losses=losses,
        seconds=seconds,
        centres=centres,
        base=base,
        notes=notes,
        version=__version__,
    )


def _settings(term: Term) -> str:
    values = dict(term.settings) | ({} if term.reduce == "sequence" else {"reduce": term.reduce})
    values |= asdict(term.dual) if term.dual else {}
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _weights(weights: Weights) -> str:
    modules = ", ".join(weights.modules) or "all modules"
    layers = f" of layers {', '.join(map(str, weights.layers))}" if weights.layers else ""
    if not weights.adapters:
        return modules + layers
    adapters = ", ".join(f"{name} {value:g}" for name, value in asdict(weights.adapters).items())
    return f"low-rank adapters ({adapters}) on {modules}{layers}, merged"
