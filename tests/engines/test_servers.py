"""Which servers may be asked, and which gets the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatting import request
from leakbound.engines.addresses import UnnamedServerError, key_for, server_of, servers_of
from leakbound.engines.endpoint import EndpointChat
from leakbound.engines.models import CHATS, OpenModels
from leakbound.errors import InputError
from leakbound.scorers import connect, make_scorer
from leakbound.study import Rewritings
from leakbound.types import Decoding
from misbehaving import chat_server, says

HERE = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("scorers", "models", "servers"),
    [
        (["keyword", "entailment"], [], []),
        ([f"judge:openai:{HERE}/#m"], [], [HERE]),
        ([f"judge:model=openai:{HERE}#m,rubric=wmdp>=0.5"], [], [HERE]),
        (["judge:some/folder"], ["some/model"], []),
        ([], ["openai:https://there/v1#m"], ["https://there/v1"]),
    ],
)
def test_servers_are_found_in_what_the_user_wrote(
    scorers: list[str], models: list[str], servers: list[str]
) -> None:
    assert servers_of(scorers, models) == frozenset(servers)


@pytest.mark.parametrize("cut", ["", ">=0.5"])
def test_no_server_is_opened_that_was_not_named(cut: str) -> None:
    judge = make_scorer(f"judge:openai:{HERE}#m{cut}")
    for servers in (frozenset[str](), frozenset({"http://127.0.0.1:8001/v1"})):
        with pytest.raises(UnnamedServerError, match=r"nothing was sent to `http://127.0.0.1:8000"):
            connect(judge, OpenModels(servers=servers))
    connect(judge, OpenModels(servers=frozenset({HERE})))


def test_rewritings_come_from_named_servers_alone() -> None:
    inputs = Rewritings(f"model:openai:{HERE}#m")
    assert inputs.models == (f"openai:{HERE}#m",)
    with pytest.raises(UnnamedServerError):
        inputs.open().chat.chat([request("r", "who")], Decoding(temperature=0), 0)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("url", "home", "sent"),
    [
        ("https://api.openai.com/v1", "", True),
        ("https://API.openai.com:443/v1", "", True),
        ("http://api.openai.com/v1", "", False),
        ("https://api.openai.com:8443/v1", "", False),
        ("http://api.openai.com:443/v1", "", False),
        ("https://api.openai.com.evil.example/v1", "", False),
        ("http://127.0.0.1:8000/v1", "", False),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1", True),
        ("http://127.0.0.1:8001/v1", "http://127.0.0.1:8000/v1", False),
        ("https://api.openai.com/v1", "http://127.0.0.1:8000/v1", False),
    ],
)
def test_the_key_goes_to_its_own_server_alone(
    monkeypatch: pytest.MonkeyPatch, url: str, home: str, sent: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " secret-key\n")
    monkeypatch.setenv("OPENAI_BASE_URL", home)
    assert key_for(url) == ("secret-key" if sent else "")


def test_another_server_that_the_user_names_is_asked_without_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    with chat_server(lambda *_: says("x")) as served:
        EndpointChat.open(f"{served.url}#m", cache=tmp_path).chat(
            [request("r", "who")], Decoding(temperature=0), 0
        )
    assert "secret-key" not in str(served.headers)


@pytest.mark.parametrize("key", ["secret\nkey", "secret key", "secret\x00key", "sécret"])
def test_a_key_that_is_none_is_refused_and_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": key})
    with chat_server(lambda *_: says("x")) as served:
        monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": served.url})
        chat = EndpointChat.open(f"{served.url}#m", cache=tmp_path)
        with pytest.raises(InputError, match="OPENAI_API_KEY holds") as told:
            chat.chat([request("r", "who")], Decoding(temperature=0), 0)
    shown = f"{told.value!r} {told.value.__cause__!r} {told.value.__context__!r}"
    assert "cret" not in shown
    assert served.asked == []


def test_every_chat_engine_that_runs_elsewhere_is_asked_only_where_the_user_names_it() -> None:
    """A new one that is not counted among them would send what a file alone names."""
    elsewhere = {name for name in CHATS if server_of(f"{name}:http://here/v1#m") is not None}
    assert set(CHATS) - elsewhere == {"transformers"}
