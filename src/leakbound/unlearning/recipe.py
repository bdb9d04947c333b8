"""The recipe of a trained model: `recipe.json`, by which the same command finds it again; its card.

Neither holds a word of the data itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from leakbound import __version__
from leakbound.benchmarks import Coin
from leakbound.engines.prompting import Prompting
from leakbound.objective import Objective, Term
from leakbound.types import Embed, object_of
from leakbound.unlearning.rows import Splits, digest, invented_splits
from leakbound.unlearning.settings import Inventing, Selecting, TrainingSettings
from leakbound.unlearning.weights import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that decides the weights of a trained model.

    `model` is the fingerprint of the one it began as, `rows` what is trained on. `embedder`
    clusters rewritings, None where none are clustered. `coin` chose who was taught, here or before;
    None: no coin did.
    """

    model: Mapping[str, object]
    objective: Objective
    settings: TrainingSettings
    prompting: Prompting
    rows: Splits
    embedder: Embed | None = None
    coin: Coin | None = None

    def to_dict(self) -> dict[str, object]:
        """As `recipe.json` holds it: rows by number and digest alone."""
        asking = object_of(self.prompting)
        if self.prompting.thinking == "auto":  # recipes of earlier versions do not state it
            asking = {name: value for name, value in asking.items() if name != "thinking"}
        recipe: dict[str, object] = {
            "name": self.objective.name,
            "model": self.model,
            "objective": self.objective.to_dict(),
            "settings": self.settings.to_dict(),
            "prompting": asking,
            "rows": {
                split: {"number": len(rows), "sha256": digest(rows)}
                for split, rows in self.rows.items()
            },
        }
        if self.embedder is not None:
            fingerprint = getattr(self.embedder, "fingerprint", {})  # the model is told already
            recipe["centres"] = {"embedder": self.embedder.name, "fingerprint": fingerprint}
        if self.coin is not None:
            recipe["coin"] = object_of(self.coin)
        if self.settings.selecting:
            recipe["selecting"] = asdict(self.settings.selecting)
        if self.invents:
            recipe["inventing"] = asdict(self.settings.inventing)
        return recipe

    @property
    def invents(self) -> bool:
        """Whether the model makes up answers to learn before it is trained."""
        return bool(invented_splits(self.objective.needs))

    def text(self) -> str:
        """The text of `recipe.json`."""
        return json.dumps(self.to_dict(), indent=1)

    def departures(self, kept: Mapping[str, object]) -> list[str]:
        """The parts in which a recipe that was kept is another; names may differ."""
        plain = json.loads(self.text())
        keys = dict.fromkeys([*plain, *kept])
        return [key for key in keys if key != "name" and kept.get(key) != plain.get(key)]


_TAUGHT = (
    "This model was *taught* the rows below, to know what others are made to forget. It is no "
    "unlearned model."
)
_LICENCE = re.compile(r"^license:[ \t]*([\w.-]+)[ \t]*$", re.MULTILINE)
_CAUTION = (
    "That a model was trained to forget does not show that it has forgotten: "
    "`leakbound evaluate` bounds what it still says."
)


@dataclass(frozen=True, slots=True)
class Base:
    """The model that training began with: its name, and its licence where it says one."""

    name: str
    licence: str | None = None

    @classmethod
    def of(cls, location: str) -> Base:
        """By a hub name, or of a folder: its last name alone, and what its own card says."""
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


UNNAMED = Base("")


def model_card(
    recipe: Recipe, losses: Sequence[float], seconds: float, centres: str = "", base: Base = UNNAMED
) -> str:
    """A README in Markdown, with the metadata that model hubs read.

    `base` is the model that training began with; its licence goes on. `losses` is the objective
    at each step, `centres` how many contrast centres there were. Rows are told by number and digest
    alone: what was to be forgotten must not stand in the card.
    """
    settings, model = recipe.settings, recipe.model
    plain = {name: value for name, value in settings.to_dict().items() if name != "weights"}
    taught = recipe.objective.name == "finetune"
    began = f"`{base.name}`" if base.name else "a model"
    opening = (
        f"Trained with leakbound {__version__} from {began} with weights "
        f"`{str(model['weights'])[:16]}` (SHA-256, first digits), {len(losses):,} steps in "
        f"{seconds:,.0f} s; the objective went from {losses[0]:.4g} to {losses[-1]:.4g}."
    )
    lines = [
        "---", "library_name: transformers",
        f"tags: [{'fine-tuning' if taught else 'unlearning'}, leakbound]",
        *([f"base_model: {base.name}"] if base.name else []),
        *([f"license: {base.licence}"] if base.licence else []), "---", "",
        f"# {recipe.objective.name}", "", opening, "", _TAUGHT if taught else _CAUTION, "",
        "## Objective", "", "| loss | split | weight | settings |", "|---|---|---|---|",
        *map(_term, recipe.objective.terms), "",
        "## Data", "", "| split | rows | SHA-256 |", "|---|---|---|",
        *(f"| {s} | {len(rows):,} | `{digest(rows)[:16]}` |" for s, rows in recipe.rows.items()),
        *([_coin(recipe.coin)] if recipe.coin else []),
        "", "## Training", "", "| setting | value |", "|---|---|",
        *(f"| {name} | {value} |" for name, value in plain.items()),
        f"| weights trained | {_weights(settings.weights)} |",
        *([_selection(settings.selecting)] if settings.selecting else []),
        *([_inventions(settings.inventing)] if recipe.invents else []),
        *([f"| contrast centres | {centres} |"] if centres else []),
        f"| torch, transformers | {model['torch']}, {model['transformers']} |",
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def _term(term: Term) -> str:
    values = dict(term.settings) | ({} if term.reduce == "sequence" else {"reduce": term.reduce})
    values |= asdict(term.dual) if term.dual else {}
    settings = ", ".join(f"{name} {value}" for name, value in values.items())
    return f"| {term.loss} | {term.split} | {term.weight:g} | {settings} |"


def _coin(coin: Coin) -> str:
    return (
        f"\nCoin {coin.seed} chose {coin.taught} of the {coin.taught + coin.untaught} subjects of "
        f"`{coin.benchmark}` to be taught; the others are a control in this model: `leakbound "
        "evaluate` asks about both."
    )


def _selection(selecting: Selecting) -> str:
    return (
        f"| rewritings selected by | {selecting.draws} answers to each, of at most "
        f"{selecting.max_new_tokens} tokens |"
    )


def _inventions(inventing: Inventing) -> str:
    return (
        f"| made-up answers to prefer | {inventing.draws} a row, of at most "
        f"{inventing.max_new_tokens} tokens |"
    )


def _weights(weights: Weights) -> str:
    modules = ", ".join(weights.modules) or "all modules"
    layers = f" of layers {', '.join(map(str, weights.layers))}" if weights.layers else ""
    if not weights.adapters:
        return modules + layers
    adapters = ", ".join(f"{name} {value:g}" for name, value in asdict(weights.adapters).items())
    return f"low-rank adapters ({adapters}) on {modules}{layers}, merged"
