"""Imports point strictly down the layers, and the cheap entry points stay cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from budgets import PACKAGE, package, statements

LAYERS = (
    {"errors", "types", "registry", "durable"},
    {"stats", "losses"},
    {"sampling", "text"},
    {"scorers", "inputs", "metrics", "objective"},
    {"engines", "benchmarks"},
    {"served"},
    {"study"},
    {"store"},
    {"unlearning"},
    {"stress"},
    {"planning"},
    {"scoring"},
    {"drawing", "bounding"},
    {"presenting"},
    {"evaluation"},
    {"certificate", "reporting", "formats", "plotting", "plugins", "demo", "testing"},
    {"cli"},
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Siblings within a layer that may be imported.
ALLOWED = {
    ("types", "errors"),
    ("types", "registry"),
    ("registry", "errors"),
    ("demo", "reporting"),
    ("reporting", "plotting"),
    ("plugins", "formats"),
}
# Packages, and files of `engines`, that the core does not import.
OUTBUILDINGS = (
    "losses",
    "objective",
    "unlearning",
    "plotting",
    "plugins",
    "formats",
    "demo",
    "testing",
    "cli.extras",
    "cli.unlearn",
    "engines.ray_workers",
    "engines.vllm",
    "served",
)
DOORS = {
    "cli/parsed.py": {"engines.ray_workers"},  # --ray
    "reporting/figures.py": {"plotting"},
    "stress/relearned.py": {"unlearning"},
    "stress/weights.py": {"unlearning"},
}
"""The outbuildings that a file of the core opens if a user requests them."""
TORCH_USERS = {
    "losses", "sampling", "engines", "unlearning", "objective", "plugins", "stress", "demo"
}  # fmt: skip
TRANSFORMERS_USERS = {"engines", "unlearning", "plugins", "demo"}


def family(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


def imported(tree: ast.Module) -> set[str]:
    """Return every module that a file imports, also inside functions."""
    got: set[str] = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            got |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            got |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return got


@cache
def imports() -> dict[Path, set[str]]:
    """Return the imported modules of every file, by its path inside the package."""
    made = {source.path: imported(source.tree) for source in package()}
    return {p: names for p, names in made.items() if family(p) not in ("__init__", "__main__")}


def name_of(path: Path) -> str:
    """Return the name of the module in a file."""
    return ".".join(["leakbound", *path.with_suffix("").parts]).removesuffix(".__init__")


def test_imports_point_down() -> None:
    for path, modules in imports().items():
        own = family(path)
        assert own in RANK, f"{own} has no layer: add it to LAYERS"
        for module in modules:
            if not module.startswith("leakbound."):
                continue
            other = module.split(".")[1]
            if other == own or other not in RANK:
                continue
            below = RANK[other] < RANK[own]
            assert below or (own, other) in ALLOWED, f"{path} imports {other}"


def outbuildings(module: str) -> set[str]:
    """Return the outbuildings that are a module or contain it."""
    return {name for name in OUTBUILDINGS if f"{module}.".startswith(f"leakbound.{name}.")}


def test_every_listed_outbuilding_exists() -> None:
    for name in OUTBUILDINGS:
        place = PACKAGE.joinpath(*name.split("."))
        assert place.is_dir() or place.with_suffix(".py").is_file(), name


def test_the_core_imports_no_outbuilding() -> None:
    """The tables of `engines` open servers and clusters; this test leaves them out."""
    for path, modules in imports().items():
        if outbuildings(name_of(path)) or family(path) == "engines":
            continue
        used = {name for module in modules for name in outbuildings(module)}
        assert used == DOORS.get(path.as_posix(), set()), path


def test_no_files_and_no_packages_import_in_a_circle() -> None:
    """Imports in functions and imports for types count."""
    names = {name_of(path) for path in imports()}
    files = {
        name_of(path): (modules & names) - {name_of(path)}
        for path, modules in imports().items()
        if path.name != "__init__.py" and family(path) != "store"
    }
    assert (got := circle(files)) is None, " -> ".join(got)
    packages: dict[str, set[str]] = {}
    for name, used in files.items():
        own = name.rpartition(".")[0]
        packages.setdefault(own, set()).update(
            {(u if u not in files else u.rpartition(".")[0]) for u in used} - {own, "leakbound"}
        )
    packages.pop("leakbound", None)
    assert (got := circle(packages)) is None, " -> ".join(got)


def circle(graph: dict[str, set[str]]) -> list[str] | None:
    """Return a path from a node back to itself, or None."""
    done: set[str] = set()

    def walk(node: str, way: list[str]) -> list[str] | None:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return None
        for following in sorted(graph.get(node, ())):
            if got := walk(following, [*way, node]):
                return got
        done.add(node)
        return None

    return next((got for node in sorted(graph) if (got := walk(node, []))), None)


def test_heavy_libraries_stay_in_their_layers() -> None:
    for path, modules in imports().items():
        roots = {module.split(".")[0] for module in modules}
        if family(path) not in TORCH_USERS:
            assert "torch" not in roots, path
        if family(path) not in TRANSFORMERS_USERS:
            assert not roots & {"transformers", "accelerate", "peft"}, path
        if family(path) == "stats":
            usual = {"numpy", "scipy", "leakbound"} | set(sys.stdlib_module_names)
            assert roots <= usual, path


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import leakbound", {"torch", "scipy"}),
        ("import leakbound.stats", {"scipy.stats"}),
        ("import leakbound.stress as s; s.stresses_of(s.USUAL)", {"torch"}),
    ],
)
def test_importing_loads_nothing_heavy(code: str, heavy: set[str]) -> None:
    assert run(f"{code}; import sys; print({heavy} & {{*sys.modules}})") == "set()"


def test_stresses_import_torch_only_in_functions() -> None:
    for source in package():
        if family(source.path) == "stress":
            tops = [n for n in source.tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
            names = imported(ast.Module(body=list(tops), type_ignores=[]))
            assert not {name.split(".")[0] for name in names} & {"torch", "transformers"}
