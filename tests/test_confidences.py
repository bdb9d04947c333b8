"""Confidences and shares are written by one function each, so that 99.9 % is never '100 %'."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import leakbound

PACKAGE = Path(leakbound.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
PAGES = sorted(PACKAGE.rglob("*.html"))
WRITERS = {  # files that write a number before a percent sign
    "stats/estimate.py": "percent",
    "text/shown.py": "share",
    "stats/joint.py": "joint",  # rounds up what to bound each estimate at
}


def names(node: ast.AST) -> Iterator[str]:
    """Every name, attribute and string in an expression."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def is_percent(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return called is not None and (
        getattr(called, "attr", None) == "percent" or getattr(called, "id", None) == "percent"
    )


def offences(tree: ast.AST) -> Iterator[str]:
    """Texts that write a confidence or a share by themselves."""
    for text in ast.walk(tree):
        if not isinstance(text, ast.JoinedStr):
            continue
        for part, after in zip(text.values, [*text.values[1:], None], strict=True):
            if not isinstance(part, ast.FormattedValue):
                continue
            spec = ast.unparse(part.format_spec) if part.format_spec else ""
            written = f"line {part.lineno}: {ast.unparse(part.value)}"
            if "%" in spec:
                yield f"{written} is formatted with {spec}"
            mentions = any("confidence" in name.lower() for name in names(part.value))
            if mentions and part.conversion != ord("r") and not is_percent(part.value):
                yield f"{written} is a confidence that `stats.percent` did not write"
            literal = after.value if isinstance(after, ast.Constant) else ""
            if re.match(r"\s*%", str(literal)):
                yield f"{written} stands before a percent sign"


def test_no_file_writes_a_confidence_by_itself() -> None:
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source if "%" in source or "confidence" in source else "")
        allowed = WRITERS.get(str(path.relative_to(PACKAGE)))
        for node in tree.body if allowed else ():
            if isinstance(node, ast.FunctionDef) and node.name == allowed:
                tree.body.remove(node)
                break
        assert list(offences(tree)) == [], path


def test_no_page_writes_a_confidence_by_itself() -> None:
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        for shown in re.findall(r"\{\{(.*?)\}\}", page):
            assert "confidence" not in shown or "percent(" in shown, path
            assert "%" not in shown.replace("%}", ""), path
        assert re.findall(r"\}\}\s*%", page) == [], path


def test_the_lint_finds_each_offence() -> None:
    for line in (
        'f"{confidence:.0%}"',
        'f"{100 * grid.confidence:.6g} % jointly"',
        """f"{row['confidence']} each\"""",
        'f"{100 * part:.1f} %"',
    ):
        assert list(offences(ast.parse(line))), line
    assert not list(offences(ast.parse('f"{stats.percent(run.confidence)} jointly"')))
