"""What was said on the command line, and how it goes into a value of the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

Value = TypeVar("Value")


class Said:
    """The options of a command by the names of its parameters; None is what was not said."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._given = given

    def __getattr__(self, option: str) -> Any:
        try:
            return self._given[option]
        except KeyError:
            raise AttributeError(f"the command has no option {option!r}") from None

    def value(self, option: str) -> Any:
        """What was said for this option; None where nothing was, or there is no such option."""
        return self._given.get(option)

    def into(self, value: Value, /, *named: str, **renamed: str) -> Value:
        """The value with what was said in place of its own: of these options, or field=option."""
        options = {name: name for name in named} | renamed
        said = {name: self.value(option) for name, option in options.items()}
        stated = {name: found for name, found in said.items() if found not in (None, ())}
        return replace(value, **stated)  # type: ignore[type-var]

    def into_each(self, value: Value, /, **renamed: str) -> Value:
        """The same of every field, by the option of its name where no other is given for it."""
        own = (field.name for field in fields(value))  # type: ignore[arg-type]
        return self.into(value, *own, **renamed)
