"""The model card of a trained model: what was done to it, and with what; never the data itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakbound import __version__

_CAUTION = (
    "That a model was trained to forget does not show that it has forgotten: "
    "`leakbound evaluate` bounds what it still says."
)


def model_card(
    recipe: Mapping[str, Any], losses: tuple[float, ...], seconds: float, centres: str = ""
) -> str:
    """A README in Markdown, with the metadata that model hubs read.

    `recipe` is what `recipe.json` holds, `centres` how many contrast centres there were. Rows are
    told by number and digest alone: what was to be forgotten must not stand in the card.
    """
    settings = dict(recipe["settings"])
    weights = settings.pop("weights")
    opening = (
        f"Trained with leakbound {__version__} from a model with weights "
        f"`{recipe['model']['weights'][:16]}` (SHA-256, first digits), {len(losses):,} steps in "
        f"{seconds:,.0f} s; the objective went from {losses[0]:.4g} to {losses[-1]:.4g}."
    )
    lines = [
        "---", "library_name: transformers", "tags: [unlearning, leakbound]", "---", "",
        f"# {recipe['name']}", "", opening, "", _CAUTION, "",
        "## Objective", "", "| loss | split | weight | settings |", "|---|---|---|---|",
        *(_term(term) for term in recipe["objective"]["terms"]), "",
        "## Data", "", "| split | rows | SHA-256 |", "|---|---|---|",
        *(f"| {s} | {r['number']:,} | `{r['sha256'][:16]}` |" for s, r in recipe["rows"].items()),
        "", "## Training", "", "| setting | value |", "|---|---|",
        *(f"| {name} | {value} |" for name, value in settings.items()),
        f"| weights trained | {_weights(weights)} |",
        *([_answers(recipe["sampling"])] if "sampling" in recipe else []),
        *([_selection(recipe["selecting"])] if "selecting" in recipe else []),
        *([f"| contrast centres | {centres} |"] if centres else []),
        f"| torch, transformers | {recipe['model']['torch']}, {recipe['model']['transformers']} |",
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def _term(term: Mapping[str, Any]) -> str:
    said = term["settings"] | ({} if term["reduce"] == "sequence" else {"reduce": term["reduce"]})
    settings = ", ".join(f"{name} {value}" for name, value in said.items())
    return f"| {term['loss']} | {term['split']} | {term['weight']:g} | {settings} |"


def _selection(selecting: Mapping[str, Any]) -> str:
    return (
        f"| rewritings selected by | {selecting['draws']} answers to each, of at most "
        f"{selecting['max_new_tokens']} tokens |"
    )


def _answers(sampling: Mapping[str, Any]) -> str:
    return (
        f"| own answers in each pass | {sampling['draws']} a prompt, of at most "
        f"{sampling['max_new_tokens']} tokens, scored by `{sampling['scorer']}` |"
    )


def _weights(weights: Mapping[str, Any]) -> str:
    modules = ", ".join(weights["modules"]) or "all modules"
    layers = f" of layers {', '.join(map(str, weights['layers']))}" if weights["layers"] else ""
    if not weights["adapters"]:
        return modules + layers
    adapters = ", ".join(f"{name} {value:g}" for name, value in weights["adapters"].items())
    return f"low-rank adapters ({adapters}) on {modules}{layers}, merged"
