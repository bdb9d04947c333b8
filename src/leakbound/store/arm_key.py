"""`ArmKey`: which arm of a run an arm is. Names of arms are made and read here, nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from leakbound.errors import InputError
from leakbound.types import Decoding

Model = Literal["target", "control"]
Asks = Literal["own words", "rewritings", "attack", "search", "selection"]
_INPUTS, _ATTACK, _ROUND, _SELECTION = "inputs", "attack", "round", "selection"
_UNDER = " under "
_NAMED = str.maketrans({":": " ", "/": "_", "\\": "_"})  # a spec, as the name of a folder has it
_GREEDY: dict[Model, str] = {"target": "greedy", "control": "control-greedy"}
_LONGEST = 200  # characters of a name: it is that of a folder


@dataclass(frozen=True, slots=True)
class ArmKey:
    """A model, the kind of query it is given, and a decoding: the key of an arm within its run.

    Its text is the name of the arm's folder and its entry in tables, and keys the arm's draws:
    another text is another draw.

    Attributes:
        model: the one under evaluation (`target`), or its `control`.
        asks: every question in its `own words`; `rewritings` of it too; or what an `attack` found
            to leak most of it. A `search` for that, and the `selection` of rewritings, draw to
            choose the queries: such arms are in separate runs and are never bounded.
        decoding: the name of the decoding, where the run has several; else empty.
        greedy: the arm of the greedy answers, which is stored alongside the draws.
        round: of a search, from 1 on; else 0.
        stress: the change of the model or of its prompts before the draws: a stress by its name;
            else empty.
    """

    model: Model = "target"
    asks: Asks = "own words"
    decoding: str = ""
    greedy: bool = False
    round: int = 0
    stress: str = ""

    def __post_init__(self) -> None:
        text = str(self)
        odd = any(c in "/\\:" or not c.isprintable() for c in text) or "" in text.split(" ")
        if odd or len(text) > _LONGEST:
            raise InputError(
                f"{text[:_LONGEST]!r} is no name of an arm: it cannot be that of a folder."
            )

    def __str__(self) -> str:
        """The name: `target`, `control T=0.4`, `target T=1 inputs`, `target under round int4`."""
        if self.greedy:
            return _GREEDY[self.model]
        if self.asks == "selection":
            return _SELECTION
        if self.asks == "search":
            return f"{_ROUND} {self.round} {self.decoding}"
        attack = _ATTACK if self.asks == "attack" else ""
        inputs = _INPUTS if self.asks == "rewritings" else ""
        name = " ".join(word for word in (self.model, attack, self.decoding, inputs) if word)
        return f"{name}{_UNDER}{self.stress}" if self.stress else name

    @classmethod
    def from_text(cls, name: str) -> ArmKey:
        """The key with this name; InputError where no arm can have it."""
        key = _read(name)
        if key is None or str(key) != name:
            raise InputError(
                f"{name[:_LONGEST]!r} is no name of an arm. Arms are called `target`, `control`, "
                "`greedy` and the like: see the folders in `arms`."
            )
        return key

    @property
    def is_control(self) -> bool:
        """True if the arm is the control's."""
        return self.model == "control"

    @property
    def own_words(self) -> bool:
        """True if the model as it is gets every question in its own words."""
        return self.asks == "own words" and not self.stress

    @property
    def control(self) -> ArmKey:
        """The arm of the control with the same queries and decoding."""
        return replace(self, model="control")

    @property
    def with_rewritings(self) -> ArmKey:
        """The arm with rewritings too."""
        return replace(self, asks="rewritings")

    @property
    def in_own_words(self) -> ArmKey:
        """The arm of the same model and decoding with the questions only."""
        return replace(self, asks="own words")

    @property
    def greedy_answers(self) -> ArmKey:
        """The arm of the same model's greedy answers."""
        return ArmKey(self.model, greedy=True)

    def stressed(self, spec: str) -> ArmKey:
        """The arm of the model under this stress, in own words; `spec` as a study names it."""
        return replace(self, stress=spec.translate(_NAMED))

    @property
    def unstressed(self) -> ArmKey:
        """The arm of the model as it is."""
        return replace(self, stress="")

    def under(self, decoding: Decoding) -> ArmKey:
        """The arm of this decoding, of a run that has several."""
        return replace(self, decoding=decoding.name)


TARGET, CONTROL = ArmKey(), ArmKey("control")
GREEDY, CONTROL_GREEDY = TARGET.greedy_answers, CONTROL.greedy_answers
ATTACK = ArmKey(asks="attack")
SELECTING = ArmKey(asks="selection")


def _read(name: str) -> ArmKey | None:
    name, _, stress = name.partition(_UNDER)
    first, *words = name.split(" ")
    for model, greedy in _GREEDY.items():
        if name == greedy:
            return ArmKey(model, greedy=True)
        if first == model:
            asks: Asks = "own words"
            if words[:1] == [_ATTACK]:
                asks, words = "attack", words[1:]
            elif words[-1:] == [_INPUTS]:
                asks, words = "rewritings", words[:-1]
            return ArmKey(model, asks, " ".join(words), stress=stress)
    if first == _ROUND and words and words[0].isdecimal():
        return ArmKey(asks="search", decoding=" ".join(words[1:]), round=int(words[0]))
    return SELECTING if name == _SELECTION else None
