"""Keep the package readable and small: typed signatures, short functions, sizes that only fall."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import budgets
from budgets import BUDGETS

ROOT = Path(__file__).parent.parent
Function = ast.FunctionDef | ast.AsyncFunctionDef
MOST_UNTYPED = 25  # of a thousand functions, those with a dict of anything in their signature
MOST_PARAMETERS = 8
MOST_LINES = 60  # of a function without its docstring
MOST_VAGUE = 51  # uses of a vague name to define or pass something: fields and protocols
MOST_UNFORMATTED = 48  # lines of the package that the formatter leaves as they are


def functions() -> list[tuple[Path, Function]]:
    return [(source.path, node) for source in budgets.package() for node in source.functions]


def names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        fields = ("asname",) if isinstance(node, ast.alias) else ("name", "arg", "id", "attr")
        if not isinstance(getattr(node, "ctx", None), ast.Load):
            yield from filter(None, (getattr(node, field, None) for field in fields))


def test_names_are_specific() -> None:
    banned = re.compile("asked|beside|found|held|said|told", re.IGNORECASE)
    for folder in ("src", "tests", "bench", "experiments"):
        for source in budgets.Source.below(ROOT / folder):
            if not re.search(banned, source.text):  # walking a tree takes longer
                continue
            parts = {p: n for n in names(source.tree) for p in re.findall("[A-Z]?[a-z]+|[A-Z]+", n)}
            assert not [n for p, n in parts.items() if banned.fullmatch(p)], source.path
    given = [name for source in budgets.package() for name in names(source.tree)]
    assert sum(name in ("each", "known", "one") for name in given) <= MOST_VAGUE


def test_first_sentences_are_specific() -> None:
    for source in budgets.package():
        for _, text in budgets.docstrings(source.tree):
            first = text.split()[0]
            assert first not in ("What", "Of", "Those", "Who"), f"{source.path}: {first}"


def annotations(function: Function) -> Iterator[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    for annotation in [a.annotation for a in every if a] + [function.returns]:
        if annotation is not None:
            yield ast.unparse(annotation)


def test_few_signatures_take_or_give_a_dict_of_anything() -> None:
    loose = [
        f"{path}:{function.lineno} {function.name}"
        for path, function in functions()
        if any("dict[str, Any]" in a or "Mapping[str, Any]" in a for a in annotations(function))
    ]
    assert 1000 * len(loose) <= MOST_UNTYPED * len(functions()), "\n".join(loose)


def test_no_function_has_many_parameters() -> None:
    """Bounds have the arguments of the field and commands have options, so both are exempt."""
    for path, function in functions():
        decorated = " ".join(map(ast.unparse, function.decorator_list))
        if path.parts[0] == "stats" or "click" in decorated or "opt." in decorated:
            continue
        given = function.args
        names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        names = [name for name in names if name not in ("self", "cls")]
        assert len(names) <= MOST_PARAMETERS, f"{path}:{function.lineno} {function.name}: {names}"


def test_no_function_is_long() -> None:
    for path, function in functions():
        body = function.body[1:] if ast.get_docstring(function) else function.body
        if body:
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1
            assert lines <= MOST_LINES, f"{path}:{function.lineno} {function.name}: {lines} lines"


def test_no_two_public_classes_have_one_name() -> None:
    """One word for one thing: the name `Reading` identifies one class."""
    places: dict[str, list[str]] = {}
    for source in budgets.package():
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(source.path))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_no_size_is_above_its_budget() -> None:
    sizes = budgets.measured()
    assert sizes.keys() == BUDGETS["most"].keys()
    above = {name: size for name, size in sizes.items() if size > BUDGETS["most"][name]}
    assert not above, f"`python tests/budgets.py` prints every size; above: {above}"


def test_lines_are_as_full_and_functions_as_long_as_before() -> None:
    """Lines may only fall by removing something, not by fuller lines."""
    figures = budgets.density()
    assert figures.keys() == BUDGETS["density"].keys()
    for name, figure in figures.items():
        least, most = BUDGETS["density"][name]
        assert least <= figure <= most, f"{name}: {figure:.3f}"


def test_squeezed_code_is_detected() -> None:
    """The same statements on fewer lines leave the range of statements per line."""
    least, most = BUDGETS["density"]["statements_per_line"]
    figure = budgets.density()["statements_per_line"]
    assert not least <= figure / 0.95 <= most
    assert not least <= figure / 1.05 <= most


def test_the_formatter_is_the_one_that_sizes_are_measured_with() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]
    assert "format" not in settings
    assert {name: settings[name] for name in BUDGETS["formatter"]} == BUDGETS["formatter"]
    unformatted = sum(
        len(re.findall(r"# fmt: (?:skip|off)", source.text)) for source in budgets.package()
    )
    assert unformatted <= MOST_UNFORMATTED
