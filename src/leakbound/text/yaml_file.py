"""YAML files, of which JSON files are a kind."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from leakbound.errors import InputError
from leakbound.text.rows import read_text
from leakbound.types import Json

MOST = 1 << 20  # bytes: what is written by hand is smaller


def read_yaml(path: Path) -> Json:
    """What the file holds, as plain lists, mappings and values; InputError for no YAML.

    No aliases: a few lines of them can stand for more than fits in memory. `MOST` bytes.
    """
    import yaml  # loads when a file is read

    try:
        if (size := path.stat().st_size) > MOST:
            raise InputError(f"`{path}` has {size:,} bytes, more than {MOST:,}. Shorten the file.")
    except OSError:
        pass  # which is told where it is read
    try:
        found: Json = yaml.load(read_text(path), _plain_loader())
        return found
    except yaml.YAMLError as error:
        raise InputError(f"`{path}` is not YAML: {error}. Correct the file.") from error
    except RecursionError as error:
        raise InputError(f"`{path}` is nested too deep. Make it flatter.") from error


@cache
def _plain_loader() -> Any:
    import yaml

    class Plain(yaml.SafeLoader):  # type: ignore[misc]
        """Without aliases."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                event = self.peek_event()
                raise yaml.MarkedYAMLError(
                    problem=f"an alias (*{event.anchor}) is not read: write out what it stands for",
                    problem_mark=event.start_mark,
                )
            return super().compose_node(parent, index)

    return Plain
