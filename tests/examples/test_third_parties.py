"""Other packages join every family by their entry points; messages name broken ones."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import pytest

from cli.commands import done, leakbound, refused
from leakbound.benchmarks import load_benchmark
from leakbound.engines import Prompting, open_engine
from leakbound.errors import InputError, ModelError
from leakbound.losses import loss_named
from leakbound.objective import parse_objective
from leakbound.scorers import make_scorer
from leakbound.study import Rewritings
from shared import keep
from tiny import tiny_model_folder

THEIRS = Path(__file__).parents[2] / "examples" / "third-party"
CODE = """
from leakbound.benchmarks import Benchmark
from leakbound.losses import Loss
from leakbound.objective import Term
from leakbound.types import Prompt

def loss(inputs):
    return inputs

mine = Loss(loss)

def recipe(*, strength=2.0):
    return (Term("nll", "retain", strength, {}),)

class Source:
    name, finite = "mine", True

    def rewritings(self, prompts, number, seed):
        return [[] for _ in prompts]

def source(argument, open_chat):
    return Source()

class Engine:
    def __init__(self, location):
        self.location, self.usage, self.fingerprint = location, None, {}

    def check(self, queries, decoding): ...
    def generate(self, queries, decoding, draws): ...

def engine(location, prompting, **loading):
    return Engine(location)

def load(argument, data):
    ask = (Prompt(id="1", question="Who?"),)
    return Benchmark(name=argument, prompts=ask, scorers=(), max_new_tokens=1, origin="")

class Scorer:
    name, binary = "mine", True

    def score(self, texts, prompt):
        return [1.0 for _ in texts]
"""
MINE = {
    "leakbound.losses": {"mine": "others:mine"},
    "leakbound.objectives": {"mine": "others:recipe"},
    "leakbound.inputs": {"mine": "others:source"},
    "leakbound.engines": {"mine": "others:engine", "transformers": "others:absent"},
    "leakbound.benchmarks": {"mine": "others:load"},
    "leakbound.scorers": {"mine": "others:Scorer", "gone": "absent:Scorer", "cut": "others:absent"},
}


Points = Mapping[str, Mapping[str, str]]
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Write what an installer writes: code and a dist-info folder."""
    before = set(sys.modules)

    def installed(name: str, points: Points, code: str = "", source: Path | None = None) -> Path:
        site = tmp_path / "site"
        info = site / f"{name}-0.1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
        with (info / "entry_points.txt").open("w") as file:
            for family, members in points.items():
                file.writelines([f"[{family}]\n", *(f"{k} = {v}\n" for k, v in members.items())])
        if code:
            (site / f"{name}.py").write_text(code)
        monkeypatch.setattr(sys, "path", [str(site), str(source or site), *sys.path])
        invalidate_caches()
        loss_named.cache_clear()
        return site

    yield installed
    loss_named.cache_clear()
    theirs = ("leakbound_capitals", "others", "broken", "reading")
    for name in set(sys.modules) - before:
        if name.startswith(theirs):
            del sys.modules[name]


@pytest.fixture
def capitals(install: Install) -> None:
    """The package of `examples/third-party`, installed."""
    project = tomllib.loads((THEIRS / "pyproject.toml").read_text())["project"]
    install(project["name"].replace("-", "_"), project["entry-points"], source=THEIRS / "src")


@pytest.fixture
def others(install: Install) -> None:
    """A package with a member for every family, some of them broken."""
    install("others", MINE, CODE)


@pytest.mark.usefixtures("capitals")
def test_the_example_package_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model_folder(tmp_path / "model", seed=0)
    out = tmp_path / "run"
    command = ["evaluate", model, "--benchmark", "capitals:2", "--scorer", "first-word:exact=yes"]
    command += ["--out", out, "-n", 8, "--max-new-tokens", 2, "--device", "cpu", "--json"]
    rows = done(*command).json["estimates"]
    assert {row["scorer"] for row in rows} == {"first-word:exact=yes"}
    queries = {row["query_id"] for row in rows} - {None}
    assert queries == {"capitals/france", "capitals/spain"}
    done("score", out, "--scorer", "first-word")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if str(tmp_path) not in place])
    for verb in ("show", "bound"):
        ended = leakbound(verb, out)
        refused(
            ended, "first-word", "of the package leakbound_capitals 0.1.0, which is not installed"
        )
        refused(ended, "Install it", f"leakbound bound {out} --scorer NAME")


@pytest.mark.thorough
@pytest.mark.usefixtures("capitals")
def test_the_examples_own_tests_pass() -> None:
    assert pytest.main(["-q", "-p", "no:cacheprovider", str(THEIRS / "tests")]) == 0


@pytest.mark.usefixtures("others")
def test_every_family_has_members_of_other_packages() -> None:
    assert load_benchmark("mine:here").name == "here"
    got: Any = Rewritings("mine:here").open()
    assert got.rewritings("ab", 1, 0) == [[], []]
    got = open_engine("mine:here", Prompting())
    assert got.location == "here"
    assert make_scorer("mine").name == "mine"
    assert loss_named("mine").function.__name__ == "loss"
    assert parse_objective("mine:strength=3").terms[0].weight == 3.0


READING = """
import hashlib
from pathlib import Path

class Reads:
    finite = True

    def __init__(self, path):
        self.path, self.name = path, f"words:{path}"

    def rewritings(self, prompts, number, seed):
        texts = self.path.read_text().splitlines()
        return [[f"{text} {prompt.question}" for text in texts][:number] for prompt in prompts]

class Declares(Reads):
    @property
    def fingerprint(self):
        return {"words": hashlib.sha256((self.path / "words.txt").read_bytes()).hexdigest()}

    def rewritings(self, prompts, number, seed):
        return Reads(self.path / "words.txt").rewritings(prompts, number, seed)

def words(argument, open_chat):
    return Reads(Path(argument))

def declared(argument, open_chat):
    return Declares(Path(argument).parent)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "message"),
    [("words", "fingerprint: sha256 of words.txt: it has"), ("declared", "fingerprint: words: it")],
)
def test_a_changed_file_of_a_source_is_refused(
    source: str, message: str, install: Install, tmp_path: Path
) -> None:
    points = {"leakbound.inputs": {name: f"reading:{name}" for name in ("words", "declared")}}
    install("reading", points, READING)
    model, mine = tiny_model_folder(tmp_path / "model"), tmp_path / "mine.csv"
    mine.write_text("question,answer\nwho wrote red,Ann\n")
    (tmp_path / "words.txt").write_text("Please say:\nTell me:\n")
    named = f"{source}:{tmp_path / ('words.txt' if source == 'words' else 'other')}"
    command = ["evaluate", model, "--benchmark", mine, "--inputs", named, "--out", tmp_path / "run"]
    command += ["-n", 8, "--max-new-tokens", 2, "--device", "cpu"]
    for _ in range(2):
        done(*command)
    (tmp_path / "words.txt").write_text("Please say:\nTell us:\n")
    refused(leakbound(*command), message)


@pytest.mark.usefixtures("others")
def test_a_broken_package_is_named_and_a_built_in_name_is_never_replaced(tmp_path: Path) -> None:
    for name in ("gone", "cut"):
        with pytest.raises(InputError, match=f"scorer '{name}' of the package others 0.1.0 raised"):
            make_scorer(name)
    with pytest.raises(ModelError, match="no model folder"):
        open_engine(f"transformers:{tmp_path}/absent-folder", Prompting())


@pytest.mark.usefixtures("others")
def test_an_unknown_engine_and_a_folder_with_a_colon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"unknown engine 'mime'. Did you mean 'mine'"):
        open_engine("mime:here", Prompting())
    monkeypatch.chdir(tmp_path)
    tiny_model_folder(tmp_path / "mine:here", seed=0)
    engine: Any = open_engine("mine:here", Prompting())
    assert type(engine).__name__ == "TransformersEngine"


BROKEN = """
import sys
from leakbound.losses import Loss
from leakbound.objective import Term

class Scorer:
    name, binary = "theirs", False

    def score(self, texts, prompt):
        return DO

def load(argument, data):
    return DO

def source(argument, open_chat):
    return DO

class Rewrites:
    name, kind, finite = "theirs", "file", True

    def rewritings(self, prompts, number, seed):
        return DO

def rewrites(argument, open_chat):
    return Rewrites()

def engine(location, prompting, **loading):
    return DO

def draws(location, prompting, **loading):
    return Draws()

class Draws:
    def __init__(self):
        from leakbound.types import Usage
        self.usage, self.fingerprint = Usage(), {"theirs": "1"}

    def check(self, queries, decoding): ...

    def generate(self, queries, decoding, draws):
        return DO

def recipe():
    return DO

def loss(inputs):
    return DO

loss = Loss(loss)
"""
POINTS = {
    "leakbound.scorers": {"theirs": "broken:Scorer"},
    "leakbound.benchmarks": {"theirs": "broken:load"},
    "leakbound.inputs": {"theirs": "broken:source", "rewrites": "broken:rewrites"},
    "leakbound.engines": {"theirs": "broken:engine", "draws": "broken:draws"},
    "leakbound.objectives": {"theirs": "broken:recipe"},
    "leakbound.losses": {"theirs": "broken:loss"},
}


@pytest.fixture
def site(install: Install) -> Path:
    return install("broken", POINTS)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep(tiny_model_folder(tmp_path_factory.mktemp("model") / "m"))


Status = Callable[..., tuple[int, str]]
IMPORTED = "during import: "  # before the whole code of the package


@pytest.fixture
def call(site: Path, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Status:
    """Return the status and message of `leakbound evaluate` or `unlearn` with this code."""
    monkeypatch.chdir(site)

    def status(given: list[str], code: str) -> tuple[int, str]:
        imported = code.removeprefix(IMPORTED)
        text = BROKEN.replace("DO", code) if imported == code else f"{imported}\n"
        (site / "broken.py").write_text(text)
        Path("terms.yaml").write_text("terms:\n  - loss: theirs\n    split: forget\n")
        (tmp_path / "own.csv").write_text("question,answer\nwho wrote,Ann\n")
        usual = {"--benchmark": tmp_path / "own.csv", "--out": tmp_path / "run", "--device": "cpu"}
        verb = "unlearn" if "--objective" in given else "evaluate"
        if verb == "evaluate":
            usual |= {"--scorer": "exact", "-n": 4, "--max-new-tokens": 2}
        model = [] if ":" in given[0] else [model_folder]
        others = [word for pair in usual.items() if pair[0] not in given for word in pair]
        ended = leakbound(verb, *model, *given, *others)
        return ended.status, " ".join(ended.err.split())

    return status


SCORER, SOURCE = ["--scorer", "theirs"], ["--inputs", "theirs:1"]
BENCHMARK = ["--benchmark", "theirs:1"]
REWRITES, ENGINE, DRAWS = ["--inputs", "rewrites:1"], ["theirs:1"], ["draws:1"]


def test_an_interrupted_import_is_interrupted(call: Status) -> None:
    assert call(SCORER, f"{IMPORTED}raise KeyboardInterrupt")[0] == 3


PACKAGE = "'theirs' of the package broken 0.1.0"
INVALID = "source 'theirs' of the package broken 0.1.0 must re"
RECIPE = "objective 'theirs' of the package broken 0.1.0"
OBJECTIVE, TERMS = ["--objective", "theirs"], ["--objective", "terms.yaml"]


@pytest.mark.parametrize(
    ("given", "does", "message"),
    [
        (SCORER, f"{IMPORTED}raise KeyError('gone')", f"scorer {PACKAGE} raised KeyError('gone')"),
        (BENCHMARK, f"{IMPORTED}import sys; sys.exit(0)", f"k {PACKAGE} raised SystemExit(0)"),
        (SOURCE, f"{IMPORTED}syntax error", f"input {PACKAGE} raised SyntaxError"),
        (BENCHMARK, "1 / 0", "raised ZeroDivisionError"),
        (SOURCE, "sys.exit(5)", "raised SystemExit(5)"),
        (ENGINE, "3", "returns int, which has no"),
        (OBJECTIVE, "3", f"{RECIPE} raised TypeError"),
        (OBJECTIVE, "[3]", f"{RECIPE} returns int, which has no attribute loss"),
        (SCORER, "['x' for _ in texts]", "Return numbers in [0, 1]; return None where"),
        (SCORER, "[]", f"{PACKAGE} must return one score per text, got 0"),
        (SCORER, "None", "must return one score per text, got NoneType"),
        (REWRITES, "None", INVALID),
        (REWRITES, "['text']", INVALID),
        (REWRITES, "[[3]]", INVALID),
        (TERMS, "inputs.logits.sum()", "'theirs' must return one value per row, shape (1,)"),
    ],
)
def test_a_broken_member_is_named(given: list[str], does: str, message: str, call: Status) -> None:
    status, printed = call(given, does)
    assert status == 2
    assert message in printed
    assert given is TERMS or "broken 0.1.0" in printed
    assert not does.startswith(IMPORTED) or "Repair that package or uninstall it." in printed


@pytest.mark.parametrize(
    ("given", "does", "error"),
    [
        (SCORER, "1 / 0", ZeroDivisionError),
        (REWRITES, "sys.exit(0)", RuntimeError),  # exit status 0 would look like success
        (DRAWS, "open('/gone/away')", FileNotFoundError),
    ],
)
def test_other_errors_are_tracebacks(
    given: list[str], does: str, error: type[Exception], call: Status
) -> None:
    with pytest.raises(error):
        call(given, does)
