"""A run is pushed to a hub on this machine: private, listed first, without texts where asked."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound.benchmarks import Benchmark
from leakbound.errors import IncompleteError, InputError
from leakbound.evaluation import evaluate
from leakbound.store import Run
from leakbound.testing import FakeEngine
from leakbound.types import Prompt

SECRET, TOKEN = "the secret", "hf_of_this_test"


class Hub:
    """What a hub was asked, and what it holds."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()
        self.private: dict[str, bool] = {}
        self.files: dict[str, bytes] = {}

    def answer(self, path: str, body: bytes) -> dict[str, Any]:
        """Of the few calls that a commit makes."""
        if path == "/api/repos/create":
            said = json.loads(body)
            name = f"{said['organization']}/{said['name']}"
            self.private.setdefault(name, said.get("private", said.get("visibility") == "private"))
            return {"url": f"{self.url}/datasets/{name}", "id": name, "name": name}
        if path.endswith("/preupload/main"):
            names = [file["path"] for file in json.loads(body)["files"]]
            how = [{"path": n, "uploadMode": "regular", "shouldIgnore": False} for n in names]
            return {"files": how}
        if path.endswith("/commit/main"):
            lines = [json.loads(line)["value"] for line in body.splitlines()]
            held = {v["path"]: base64.b64decode(v["content"]) for v in lines if "content" in v}
            self.files |= held
            return {"commitUrl": f"{self.url}/datasets/me/run/commit/1", "commitOid": "1"}
        if path.startswith("/api/datasets/"):
            name = "/".join(path.split("/")[3:5])
            return {"id": name, "private": self.private[name], "sha": "1", "tags": []}
        return {}

    url = ""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            made.asked.append(f"{self.command} {self.path}")
            made.tokens.add(self.headers.get("Authorization"))
            sent = json.dumps(made.answer(self.path.partition("?")[0], body)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = _serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", made.url)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    task = Benchmark(
        name="b",
        prompts=(Prompt(id="a", question="What is it?", answer=SECRET),),
        origin="",
        scorers=("rouge-l-recall>=0.5",),
        max_new_tokens=8,
    )
    out = tmp_path_factory.mktemp("pushed") / "run"
    run = evaluate(FakeEngine({"a": {SECRET: 0.25, "no": 0.75}}), task, out=out, n=64)
    leakbound.certify(run, max_leak=0.9)
    return run


def texts(files: dict[str, bytes]) -> bytes:
    return b"".join(files.values())


def test_a_run_is_pushed_whole_and_private(made: Run, hub: Hub) -> None:
    pushed = leakbound.push(made, "me/run")
    assert pushed.url is not None
    assert hub.private == {"me/run": True}
    assert hub.tokens == {f"Bearer {TOKEN}"}
    assert set(hub.files) == set(pushed.files)
    wanted = {"README.md", "report.html", "run.json", "estimates.parquet", "certificate.json"}
    assert wanted | {"prompts.parquet"} <= set(hub.files)
    assert any("/completions/" in name for name in hub.files)
    assert (made.path / "run.json").read_bytes() == hub.files["run.json"]
    card = hub.files["README.md"].decode()
    assert "the claim Pr[leak] <= 0.9 is met" in card
    assert "data_files" in card


def test_redacted_no_text_of_it_goes(made: Run, hub: Hub) -> None:
    pushed = leakbound.push(made, "me/run", redact=True)
    assert pushed.redacted
    assert set(hub.files) == {
        "README.md", "certificate.json", "estimates.parquet", "report-redacted.html",
    }  # fmt: skip
    assert SECRET.encode() not in texts(hub.files)
    assert not made.redacted


def test_a_dry_run_asks_nobody(made: Run, hub: Hub) -> None:
    planned = leakbound.push(made, "me/run", dry_run=True)
    assert planned.url is None
    assert planned.sizes["estimates.parquet"] > 0
    assert hub.asked == []


def test_a_public_repository_is_refused_unless_that_is_said(made: Run, hub: Hub) -> None:
    hub.private["me/run"] = False
    with pytest.raises(InputError, match="public already"):
        leakbound.push(made, "me/run")
    assert hub.files == {}
    leakbound.push(made, "me/run", public=True)
    assert hub.files


def test_no_other_token_is_used(
    made: Run, hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    (tmp_path / "token").write_text("hf_of_a_login")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(InputError, match="HF_TOKEN"):
        leakbound.push(made, "me/run")
    assert hub.asked == []


@pytest.mark.parametrize("name", ["run", "/run", "me/", "a/b/c"])
def test_a_name_that_is_none_is_refused(made: Run, name: str) -> None:
    with pytest.raises(InputError, match="OWNER/NAME"):
        leakbound.push(made, name, dry_run=True)


def test_a_hub_that_is_not_there_loses_nothing(made: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(IncompleteError, match="not reached"):
        leakbound.push(made, "me/run")
