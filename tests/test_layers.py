"""Imports point strictly down the layers, and the cheap entry points stay cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import leakbound

PACKAGE = Path(leakbound.__file__).parent
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
# Siblings within a layer that may be used.
ALLOWED = {
    ("types", "errors"),
    ("types", "registry"),
    ("registry", "errors"),
    ("demo", "reporting"),
    ("reporting", "plotting"),
    ("plugins", "formats"),
}
# What stands beside the core, which imports none of it: packages and files of `engines`.
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
"""What of them a file of the core leads to, when a user says so."""
TORCH_USERS = {
    "losses", "sampling", "engines", "unlearning", "objective", "plugins", "stress", "demo"
}  # fmt: skip
TRANSFORMERS_USERS = {"engines", "unlearning", "plugins", "demo"}


@cache
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


def test_imports_point_down() -> None:
    for path in FILES:
        own = family(path)
        assert own in RANK, f"{own} has no layer: add it to LAYERS"
        for module in imports(path):
            if not module.startswith("leakbound."):
                continue
            other = module.split(".")[1]
            if other == own or other not in RANK:
                continue
            below = RANK[other] < RANK[own]
            assert below or (own, other) in ALLOWED, f"{path} imports {other}"


def beside(module: str) -> set[str]:
    """The outbuildings that a module is one of, or lies in."""
    return {name for name in OUTBUILDINGS if f"{module}.".startswith(f"leakbound.{name}.")}


def test_there_are_these_outbuildings() -> None:
    for name in OUTBUILDINGS:
        place = PACKAGE.joinpath(*name.split("."))
        assert place.is_dir() or place.with_suffix(".py").is_file(), name


def test_the_core_imports_no_outbuilding() -> None:
    """The tables of `engines` open servers and clusters; this test leaves them out."""
    for path in FILES:
        place = path.relative_to(PACKAGE)
        own = "leakbound." + ".".join(place.with_suffix("").parts)
        if beside(own) or family(path) == "engines":
            continue
        used = {name for module in imports(path) for name in beside(module)}
        assert used == DOORS.get(place.as_posix(), set()), place


def test_no_files_and_no_packages_import_in_a_circle() -> None:
    """Also where an import stands in a function, or is for types alone."""
    modules = {p: ".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts) for p in FILES}
    names = {name.removesuffix(".__init__") for name in modules.values()}
    files = {
        modules[p].removesuffix(".__init__"): {
            m for m in imports(p) & names if m != modules[p].removesuffix(".__init__")
        }
        for p in FILES
        if p.name != "__init__.py"
    }
    files = {n: u for n, u in files.items() if not n.startswith("leakbound.store.")}
    assert (found := circle(files)) is None, " -> ".join(found)
    packages: dict[str, set[str]] = {}
    for name, used in files.items():
        own = name.rpartition(".")[0]
        packages.setdefault(own, set()).update(
            {(u if u not in files else u.rpartition(".")[0]) for u in used} - {own, "leakbound"}
        )
    packages.pop("leakbound", None)
    assert (found := circle(packages)) is None, " -> ".join(found)


def circle(graph: dict[str, set[str]]) -> list[str] | None:
    """A way from a node back to itself; None where there is none."""
    done: set[str] = set()

    def walk(node: str, way: list[str]) -> list[str] | None:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return None
        for following in sorted(graph.get(node, ())):
            if found := walk(following, [*way, node]):
                return found
        done.add(node)
        return None

    return next((found for node in sorted(graph) if (found := walk(node, []))), None)


def test_heavy_libraries_stay_in_their_layers() -> None:
    for path in FILES:
        roots = {module.split(".")[0] for module in imports(path)}
        if family(path) not in TORCH_USERS:
            assert "torch" not in roots, path
        if family(path) not in TRANSFORMERS_USERS:
            assert not roots & {"transformers", "accelerate", "peft"}, path
        if family(path) == "stats":
            usual = {"numpy", "scipy", "leakbound"} | set(sys.stdlib_module_names)
            assert roots <= usual, path


def test_import_loads_no_torch() -> None:
    code = "import leakbound, sys; print('torch' in sys.modules, 'scipy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]
