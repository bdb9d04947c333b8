"""Imports point strictly down the layers, and the cheap entry points stay cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import leakbound

PACKAGE = Path(leakbound.__file__).parent
LAYERS = (
    {"errors", "types", "registry", "durable"},
    {"stats", "losses"},
    {"sampling", "text"},
    {"scorers", "inputs", "metrics", "objective"},
    {"engines", "benchmarks", "formats", "store"},
    {"evaluation", "certificate", "comparison", "unlearning", "report", "demo"},
    {"cli"},
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Siblings within a layer that may be used: the estimates a run reports, the verbs a story chains.
ALLOWED = {
    ("types", "errors"),
    ("registry", "errors"),
    ("demo", "evaluation"),
    ("demo", "unlearning"),
    ("demo", "report"),
    ("report", "evaluation"),
    ("certificate", "evaluation"),
}
TORCH_USERS = {"losses", "sampling", "engines", "unlearning", "objective", "demo"}
TRANSFORMERS_USERS = {"engines", "unlearning", "demo"}


def imports(path: Path) -> set[str]:
    """Every module a file imports, wherever in the file it does so."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def family(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = [p for p in sorted(PACKAGE.rglob("*.py")) if family(p) not in ("__init__", "__main__")]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    own = family(path)
    assert own in RANK, f"{own} has no layer: add it to LAYERS"
    for module in imports(path):
        if not module.startswith("leakbound."):
            continue
        other = module.split(".")[1]
        if other == own or other not in RANK:
            continue
        assert RANK[other] < RANK[own] or (own, other) in ALLOWED, f"{own} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_heavy_libraries_stay_in_their_layers(path: Path) -> None:
    roots = {module.split(".")[0] for module in imports(path)}
    if family(path) not in TORCH_USERS:
        assert "torch" not in roots
    if family(path) not in TRANSFORMERS_USERS:
        assert not roots & {"transformers", "accelerate", "peft"}
    if family(path) == "stats":
        assert roots <= {"numpy", "scipy", "leakbound"} | set(sys.stdlib_module_names)


def test_import_loads_no_torch() -> None:
    code = "import leakbound, sys; print('torch' in sys.modules, 'scipy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]
