"""The remedies for missing libraries install what they say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import leakbound

PACKAGE = Path(leakbound.__file__).parent
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
INSTALLS = re.compile(r"""(?:install|needing)\((?:.+, )?['"](\w+)['"][,)]""")


def test_every_extra_that_a_message_names_exists_and_every_one_is_named() -> None:
    extras = set(tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"])
    texts = [file.read_text() for file in PACKAGE.rglob("*.py")]
    named = {extra for text in texts for extra in INSTALLS.findall(text)}
    assert named <= extras
    assert {"embed", "judge", "lora", "models"} <= named
    assert not any("pip install sentence" in text or "'leakbound[" in text for text in texts)
