"""Two models, a benchmark file, and a finished run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import SMALL, Words, done

from leaky import leaky_run
from shared import keep
from tiny import tiny_model_folder

WITHOUT_PAGES = (
    "test_drawing_options", "test_verify_model", "test_exporting", "test_named_servers",
    "test_one_at_a_time", "test_asking_options", "test_console", "test_machine_faults",
)  # fmt: skip
ROWS = 'question,answer,keywords\nwho wrote red,Ann,Ann\nwho wrote "blue",Bob,Bob\n'


@pytest.fixture(scope="module", autouse=True)
def _pages_are_rendered_where_they_are_read(request: pytest.FixtureRequest) -> Iterator[None]:
    """Rendering a page takes a sixth of the time of an evaluation."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem in WITHOUT_PAGES:
            patch.setattr("leakbound.reporting.page.render", lambda *_, **__: "<html>")
        yield


@pytest.fixture(autouse=True)
def replies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store replies of servers in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "replies"))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep(tiny_model_folder(tmp_path_factory.mktemp("cli") / "model", seed=0))


@pytest.fixture(scope="session")
def untied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that rarely repeats its input, so its answers are longer."""
    folder = tmp_path_factory.mktemp("cli") / "untied"
    return keep(tiny_model_folder(folder, tie_word_embeddings=False))


@pytest.fixture(scope="session")
def control(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep(tiny_model_folder(tmp_path_factory.mktemp("cli") / "control", seed=1))


@pytest.fixture(scope="session")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("cli") / "mine.csv"
    file.write_text(ROWS)
    return file


@pytest.fixture(scope="session")
def evaluating(model: Path, questions: Path) -> Words:
    """The command that evaluates the model; a folder and more options follow."""
    return ("evaluate", model, "--benchmark", questions, *SMALL, "--out")


@pytest.fixture(scope="session")
def finished(evaluating: Words, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that no test may change; `run` is a copy."""
    out = tmp_path_factory.mktemp("cli") / "finished"
    done(*evaluating, out)
    return keep(out)


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A finished run that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **__: object) -> None:
        raise AssertionError("a model was opened")

    monkeypatch.setattr("leakbound.study.settings.open_engine", opened)


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep(leaky_run(tmp_path_factory.mktemp("leaky") / "run").path)


@pytest.fixture
def leaky(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "leaky"))
