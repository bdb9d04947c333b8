"""Tests for which it can matter see tied and untied embeddings, whatever makes their models."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiny import BOTH_KINDS, are_tied, tiny_llama

HERE = Path(__file__).parent


def kept_fixtures() -> Iterator[tuple[str, ast.FunctionDef, set[str]]]:
    """The fixtures that outlive a test, with their file and the others of it."""
    for file in sorted(HERE.rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "@BOTH_KINDS" in text:
            made = {
                node.name: node
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.FunctionDef)
                and any("fixture(scope=" in ast.unparse(each) for each in node.decorator_list)
            }
            for node in made.values():
                yield str(file.relative_to(HERE)), node, set(made)


def test_what_is_kept_between_tests_is_made_for_either_kind() -> None:
    """Else the second kind would be tested on the first one's models, kept by pytest."""
    for file, node, others in kept_fixtures():
        asked = {argument.arg for argument in node.args.args}
        makes = any(f"tiny_{it}(" in ast.unparse(node) for it in ("llama", "model_folder"))
        asks = bool(asked & (others | {"embeddings"}))
        assert asks or not makes, f"{file}: `{node.name}` must take the fixture `embeddings`"


@BOTH_KINDS
def test_models_are_made_as_said(request: pytest.FixtureRequest) -> None:
    assert are_tied() == ("untied" not in request.node.name)
    model = tiny_llama(12)
    assert (model.get_output_embeddings().weight is model.model.embed_tokens.weight) == are_tied()
