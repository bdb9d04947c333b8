"""Measure the repository against `budgets.toml`; `python tests/budgets.py` prints every figure.

A line of the package counts if it is not part of a docstring. Only the totals are limited: one
package may grow if another shrinks.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from statistics import median

import click

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "leakbound"
BUDGETS = tomllib.loads((Path(__file__).parent / "budgets.toml").read_text("utf-8"))
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and every statement inside it. Expressions, nine nodes of ten, are skipped."""
    yield node
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.stmt | ast.excepthandler | ast.match_case):
            yield from statements(inner)


def docstrings(node: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Yield every docstring in a syntax tree: its statement and its text."""
    for inner in statements(node):
        if isinstance(inner, Documented) and (text := ast.get_docstring(inner)):
            yield inner.body[0], text


def docstring_lines(node: ast.AST) -> set[int]:
    """Return the lines of the docstrings in a syntax tree."""
    return {
        line
        for statement, _ in docstrings(node)
        for line in range(statement.lineno, (statement.end_lineno or 0) + 1)
    }


@dataclass(frozen=True)
class Source:
    """A Python file: its text and its syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    @classmethod
    @cache
    def below(cls, folder: Path) -> tuple[Source, ...]:
        """Read every Python file below a folder."""
        files = {path.relative_to(folder): path.read_text("utf-8") for path in folder.rglob("*.py")}
        return tuple(cls(path, text, ast.parse(text)) for path, text in sorted(files.items()))

    @property
    def lines(self) -> int:
        """The number of lines without docstrings."""
        return len(self.code)

    @cached_property
    def code(self) -> list[str]:
        """The lines without docstrings."""
        left_out = docstring_lines(self.tree)
        return [line for i, line in enumerate(self.text.splitlines(), 1) if i not in left_out]

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in statements(self.tree) if isinstance(node, Function)]

    @cached_property
    def statements(self) -> int:
        """The number of statements inside functions, docstrings included."""
        inside = {id(node) for function in self.functions for node in function_statements(function)}
        return len(inside)


def package() -> tuple[Source, ...]:
    """Return every module of the package."""
    return Source.below(PACKAGE)


def function_statements(function: Function) -> Iterator[ast.stmt]:
    for node in statements(function):
        if isinstance(node, ast.stmt) and node is not function:
            yield node


def function_lines(function: Function) -> int:
    """Return the number of lines of a function without docstrings."""
    return (function.end_lineno or 0) - function.lineno + 1 - len(docstring_lines(function))


def words(root: Path) -> int:
    """Return the number of words of the README and of every page below `docs`."""
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    return sum(len(page.read_text("utf-8").split()) for page in pages)


def options_of_evaluate() -> int:
    """Return the number of options that `leakbound evaluate` takes."""
    from leakbound.cli import group

    context = click.Context(group)
    command = group.get_command(context, "evaluate")
    if command is None:
        raise LookupError("there is no command `evaluate`")
    return sum(isinstance(parameter, click.Option) for parameter in command.params)


def by_package() -> dict[str, int]:
    """Return the lines of each package, most first; modules at the top count as one."""
    lines: dict[str, int] = {}
    for source in package():
        name = source.path.parts[0] if len(source.path.parts) > 1 else "(top)"
        lines[name] = lines.get(name, 0) + source.lines
    return dict(sorted(lines.items(), key=lambda pair: -pair[1]))


def measured() -> dict[str, int]:
    """Return the sizes that `[most]` limits, under the same names."""
    scripts = [s for name in ("bench", "experiments") for s in Source.below(ROOT / name)]
    tests = (path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    return {
        "src_lines": sum(source.lines for source in package()),
        "src_statements": sum(source.statements for source in package()),
        "test_lines": sum(len(text.splitlines()) for text in tests),
        "script_lines": sum(source.lines for source in scripts),
        "doc_words": words(ROOT),
        "evaluate_options": options_of_evaluate(),
    }


@cache
def density() -> dict[str, float]:
    """Return the figures of `[density]`: squeezed code has few lines and full ones."""
    lines = sum(source.lines for source in package())
    characters = sum(len(line) for source in package() for line in source.code)
    functions = [function for source in package() for function in source.functions]
    return {
        "median_lines_of_a_function": median(map(function_lines, functions)),
        "statements_per_line": sum(source.statements for source in package()) / lines,
        "characters_per_line": characters / lines,
    }


def main() -> None:
    for name, value in measured().items():
        print(f"{name:30} {value:8,} of {BUDGETS['most'][name]:,}")
    for name, figure in density().items():
        least, most = BUDGETS["density"][name]
        print(f"{name:30} {figure:8.3f} in {least} to {most}")
    print("lines by package:")
    for name, value in by_package().items():
        print(f"    {name:26} {value:8,}")


if __name__ == "__main__":
    main()
