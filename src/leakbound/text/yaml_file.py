"""YAML files, of which JSON files are a kind."""

from __future__ import annotations

from pathlib import Path

from leakbound.errors import InputError
from leakbound.text.rows import read_text
from leakbound.types import Json


def read_yaml(path: Path) -> Json:
    """What the file holds, as plain lists, mappings and values; InputError for no YAML."""
    import yaml  # loads when a file is read

    try:
        found: Json = yaml.safe_load(read_text(path))
        return found
    except yaml.YAMLError as error:
        raise InputError(f"`{path}` is not YAML: {error}. Correct the file.") from error
