"""What made a trained model: `recipe.json`, by which the same command finds it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from leakbound.engines.prompting import Prompting
from leakbound.objective import Objective
from leakbound.types import Embed, object_of
from leakbound.unlearning.rows import Splits, digest
from leakbound.unlearning.settings import TrainingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that decides the weights of a trained model.

    `model` is the fingerprint of the one it began as, `rows` what is trained on. `asked` is the
    digest of the prompts that the model answers itself, None where it answers none; `embedder`
    clusters rewritings, None where none are clustered.
    """

    model: Mapping[str, object]
    objective: Objective
    settings: TrainingSettings
    prompting: Prompting
    rows: Splits
    asked: str | None = None
    embedder: Embed | None = None

    def to_dict(self) -> dict[str, object]:
        """As `recipe.json` holds it: rows by number and digest alone."""
        recipe: dict[str, object] = {
            "name": self.objective.name,
            "model": self.model,
            "objective": self.objective.to_dict(),
            "settings": self.settings.to_dict(),
            "prompting": object_of(self.prompting),
            "rows": {
                split: {"number": len(rows), "sha256": digest(rows)}
                for split, rows in self.rows.items()
            },
        }
        if self.asked is not None:
            recipe["sampling"] = self.settings.sampling.to_dict() | {"sha256": self.asked}
        if self.embedder is not None:
            told = getattr(self.embedder, "fingerprint", {})  # the model itself is told already
            recipe["centres"] = {"embedder": self.embedder.name, "fingerprint": told}
        if self.settings.selecting:
            recipe["selecting"] = asdict(self.settings.selecting)
        return recipe

    def text(self) -> str:
        """The text of `recipe.json`."""
        return json.dumps(self.to_dict(), indent=1)

    def departures(self, kept: Mapping[str, object]) -> list[str]:
        """The parts in which a recipe that was kept is another; names may differ."""
        plain = json.loads(self.text())
        keys = dict.fromkeys([*plain, *kept])
        return [key for key in keys if key != "name" and kept.get(key) != plain.get(key)]
