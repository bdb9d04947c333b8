"""What keeps the package readable and small: typed signatures, short functions, and a ratchet."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import leakbound

PACKAGE = Path(leakbound.__file__).parent
ROOT = Path(__file__).parent.parent
Function = ast.FunctionDef | ast.AsyncFunctionDef
MOST_UNTYPED = 25  # of a thousand functions, those with a dict of anything in their signature
MOST_PARAMETERS = 8
MOST_LINES = 60  # of a function, its docstring not counted
MOST_VAGUE = 37  # variables whose name does not say what they are: fields and protocols
LEAST_LINES = 40  # of a file that is not the face of a package
# The ratchet. These only go down, and a new feature takes away what it brings.
PACKAGE_LINES = 52_950  # without docstrings
PACKAGE_STATEMENTS = 22_021  # in functions
TEST_LINES = 59_386
FILES = 637  # of Python, in all


TEXTS = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {path.relative_to(PACKAGE): ast.parse(text) for path, text in TEXTS.items()}
NODES = [(path, node) for path, tree in TREES.items() for node in ast.walk(tree)]
ALL = [(path, node) for path, node in NODES if isinstance(node, Function)]


def test_names_and_first_sentences_say_what_a_thing_is() -> None:
    names = [n.arg for _, n in NODES if isinstance(n, ast.arg)]
    names += [n.id for _, n in NODES if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    vague = {"asked", "each", "found", "known", "one", "said", "told"}
    assert sum(name in vague for name in names) <= MOST_VAGUE
    for path, node in NODES:
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            first = (ast.get_docstring(node) or "-").split()[0]
            assert first not in ("What", "Of", "Those", "Who"), f"{path}: {first}"


def annotations(function: Function) -> Iterator[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    for annotation in [a.annotation for a in every if a] + [function.returns]:
        if annotation is not None:
            yield ast.unparse(annotation)


def test_few_signatures_take_or_give_a_dict_of_anything() -> None:
    loose = [
        f"{path}:{function.lineno} {function.name}"
        for path, function in ALL
        if any("dict[str, Any]" in a or "Mapping[str, Any]" in a for a in annotations(function))
    ]
    assert 1000 * len(loose) <= MOST_UNTYPED * len(ALL), "\n".join(loose)


@pytest.mark.parametrize("family", sorted({path.parts[0] for path, _ in ALL} - {"stats"}))
def test_no_function_has_many_parameters(family: str) -> None:
    """Outside the bounds, whose arguments are the field's, and commands, whose are options."""
    for path, function in ALL:
        decorated = " ".join(map(ast.unparse, function.decorator_list))
        if path.parts[0] != family or "click" in decorated or "opt." in decorated:
            continue
        given = function.args
        names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        names = [name for name in names if name not in ("self", "cls")]
        assert len(names) <= MOST_PARAMETERS, f"{path}:{function.lineno} {function.name}: {names}"


def test_no_function_is_long() -> None:
    for path, function in ALL:
        body = function.body[1:] if ast.get_docstring(function) else function.body
        if body:
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1
            assert lines <= MOST_LINES, f"{path}:{function.lineno} {function.name}: {lines} lines"


def test_no_two_public_classes_share_a_name() -> None:
    """One word for one thing: whoever reads `Reading` knows which it is."""
    places: dict[str, list[str]] = {}
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def docstring_lines(tree: ast.Module) -> int:
    """How many lines of a file are docstrings."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node):
            first = node.body[0]
            found += (first.end_lineno or 0) - first.lineno + 1
    return found


def test_the_package_grows_no_more() -> None:
    lines = sum(len(text.splitlines()) for text in TEXTS.values())
    lines -= sum(map(docstring_lines, TREES.values()))
    statements = set[ast.stmt]()
    for _, function in ALL:
        inside = (node for node in ast.walk(function) if isinstance(node, ast.stmt))
        statements |= set(inside) - {function}
    assert lines <= PACKAGE_LINES
    assert len(statements) <= PACKAGE_STATEMENTS


def test_the_tests_grow_no_more() -> None:
    tests = sorted(Path(__file__).parent.rglob("*.py"))
    assert sum(len(path.read_text().splitlines()) for path in tests) <= TEST_LINES
    others = [p for name in ("bench", "experiments") for p in (ROOT / name).glob("**/*.py")]
    assert len([*tests, *others, *PACKAGE.rglob("*.py")]) <= FILES


def test_no_file_is_a_crumb() -> None:
    crumbs = [
        f"{path.relative_to(PACKAGE)}: {lines} lines"
        for path, text in TEXTS.items()
        if not path.name.startswith("__") and (lines := len(text.splitlines())) < LEAST_LINES
    ]
    assert not crumbs, "\n".join(crumbs)
