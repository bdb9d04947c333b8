"""YAML files, of which JSON files are a kind."""

from __future__ import annotations

from pathlib import Path

from leakbound.errors import InputError, require_no_fault


def read_yaml(path: Path) -> object:
    """What the file holds, as plain lists, mappings and values; InputError for no YAML."""
    import yaml  # loads when a file is read

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        require_no_fault(path, error)
        raise InputError(f"cannot read `{path}`: {error}. Give the path of a YAML file.") from error
    except yaml.YAMLError as error:
        raise InputError(f"`{path}` is not YAML: {error}. Correct the file.") from error
