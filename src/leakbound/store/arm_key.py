"""`ArmKey`, the key of an arm in its run. Only this module writes and parses names of arms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from leakbound.errors import InputError
from leakbound.types import Decoding

Model = Literal["target", "control"]
QueryKind = Literal["own words", "rewritings", "attack", "search", "selection"]
_INPUTS, _ATTACK, _ROUND, _SELECTION = "inputs", "attack", "round", "selection"
_UNDER = " under "
_NAMED = str.maketrans({":": " ", "/": "_", "\\": "_"})  # from a spec to the name of a folder
_GREEDY: dict[Model, str] = {"target": "greedy", "control": "control-greedy"}
_LONGEST = 200  # largest number of characters of a name, which is the name of a folder


@dataclass(frozen=True, slots=True)
class ArmKey:
    """A model, a kind of query and a decoding: the key of an arm within its run.

    The text of the key is the name of the arm's folder and its value in tables. The text is part of
    the key of the arm's random numbers, so another text would lead to other draws.

    Attributes:
        model: the model under evaluation (`target`), or its `control`.
        kind: the kind of query: `own words` for the original questions, `rewritings` for the
            questions with their rewritings, or `attack` for the worst queries that a search found.
            The draws of a `search` or a `selection` only choose queries. Such arms are in separate
            runs, and have no bounds.
        decoding: the name of the decoding if the run has several decodings; otherwise empty.
        greedy: whether the arm has the greedy answers.
        round: the round of a search, from 1 on; 0 for other arms.
        stress: the name of the change of the model or of its prompts; empty without stress.
    """

    model: Model = "target"
    kind: QueryKind = "own words"
    decoding: str = ""
    greedy: bool = False
    round: int = 0
    stress: str = ""

    def __post_init__(self) -> None:
        text = str(self)
        odd = any(c in "/\\:" or not c.isprintable() for c in text) or "" in text.split(" ")
        if odd or len(text) > _LONGEST:
            raise InputError(
                f"{text[:_LONGEST]!r} is not the name of an arm: it is an invalid folder name."
            )

    def __str__(self) -> str:
        """Return the name, such as `target`, `control T=0.4` or `target T=1 inputs`."""
        if self.greedy:
            return _GREEDY[self.model]
        if self.kind == "selection":
            return _SELECTION
        if self.kind == "search":
            return f"{_ROUND} {self.round} {self.decoding}"
        attack = _ATTACK if self.kind == "attack" else ""
        inputs = _INPUTS if self.kind == "rewritings" else ""
        name = " ".join(word for word in (self.model, attack, self.decoding, inputs) if word)
        return f"{name}{_UNDER}{self.stress}" if self.stress else name

    @classmethod
    def from_text(cls, name: str) -> ArmKey:
        """Return the key with this name; raise InputError if no arm can have it."""
        key = _read(name)
        if key is None or str(key) != name:
            raise InputError(
                f"{name[:_LONGEST]!r} is not the name of an arm. Arms have names such as `target`, "
                "`control` and `greedy`. See the folders in `arms`."
            )
        return key

    @property
    def is_control(self) -> bool:
        """True if the arm's model is the control."""
        return self.model == "control"

    @property
    def own_words(self) -> bool:
        """True if the unstressed model gets the original questions."""
        return self.kind == "own words" and not self.stress

    @property
    def control(self) -> ArmKey:
        """The key of the control's arm with the same queries and decoding."""
        return replace(self, model="control")

    @property
    def with_rewritings(self) -> ArmKey:
        """The key of the arm of the same model and decoding, with questions and rewritings."""
        return replace(self, kind="rewritings")

    @property
    def in_own_words(self) -> ArmKey:
        """The key of the arm of the same model and decoding, with the original questions only."""
        return replace(self, kind="own words")

    @property
    def greedy_answers(self) -> ArmKey:
        """The key of the arm with the greedy answers of the same model."""
        return ArmKey(self.model, greedy=True)

    def stressed(self, spec: str) -> ArmKey:
        """Return the key of the model's arm under a stress, with the original questions."""
        return replace(self, stress=spec.translate(_NAMED))

    @property
    def unstressed(self) -> ArmKey:
        """The key of the same arm without stress."""
        return replace(self, stress="")

    def under(self, decoding: Decoding) -> ArmKey:
        """Return the key of the arm with this decoding in a run with several decodings."""
        return replace(self, decoding=decoding.name)


TARGET, CONTROL = ArmKey(), ArmKey("control")
GREEDY, CONTROL_GREEDY = TARGET.greedy_answers, CONTROL.greedy_answers
ATTACK = ArmKey(kind="attack")
SELECTING = ArmKey(kind="selection")


def _read(name: str) -> ArmKey | None:
    name, _, stress = name.partition(_UNDER)
    first, *words = name.split(" ")
    for model, greedy in _GREEDY.items():
        if name == greedy:
            return ArmKey(model, greedy=True)
        if first == model:
            kind: QueryKind = "own words"
            if words[:1] == [_ATTACK]:
                kind, words = "attack", words[1:]
            elif words[-1:] == [_INPUTS]:
                kind, words = "rewritings", words[:-1]
            return ArmKey(model, kind, " ".join(words), stress=stress)
    if first == _ROUND and words and words[0].isdecimal():
        return ArmKey(kind="search", decoding=" ".join(words[1:]), round=int(words[0]))
    return SELECTING if name == _SELECTION else None
