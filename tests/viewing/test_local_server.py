"""Who is answered: whoever has the address, on this machine, and nobody else."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from shelves import ask

from leakbound.errors import InputError
from leakbound.viewing import serving, viewer


def test_it_listens_on_the_loopback_address_alone_under_a_fresh_token(shelf: Path) -> None:
    with serving(shelf) as first, serving(shelf) as second:
        for url in (first, second):
            place = urlsplit(url)
            assert place.hostname == "127.0.0.1"
            assert len(place.path.strip("/")) >= 32
        assert urlsplit(first).path != urlsplit(second).path
        port = urlsplit(first).port
        with (
            pytest.raises(InputError, match=f"port {port} cannot be had"),
            serving(shelf, port=port or 0),
        ):
            pass
        others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
        for address in (a for a in others if not str(a).startswith("127.")):
            with (
                pytest.raises(ConnectionError),
                socket.create_connection((address, port), timeout=2),
            ):
                pass
    with pytest.raises(ConnectionError):
        ask(first)
    with pytest.raises(InputError, match="is no folder"), serving(shelf / "rnus"):
        pass


@pytest.mark.parametrize("token", ["/", "/wrong/", "//", "", "/%2e%2e/", "/%C3%A9/"])
def test_without_the_token_nothing_is_told(page: str, token: str) -> None:
    for path in ("", "compare", "report/x"):
        found = ask(page, path, token=token or "/x")
        assert (found.status, found.headers["Content-Type"]) == (403, "text/plain; charset=utf-8")
        assert found.text == "Use the whole address that `leakbound view` printed.\n"
    secret = urlsplit(page).path
    for wrong in (secret[:-2] + "/", secret[:-1] + "x/", f"/x{secret}"):
        assert ask(page, token=wrong).status == 403


def test_under_another_host_nothing_is_told(page: str) -> None:
    """A name server that points evil.example here gives its pages no way in; localhost is here."""
    port = urlsplit(page).port
    for host in ("evil.example", "127.0.0.1", f"evil.example:{port}", "", "127.0.0.1:1"):
        assert ask(page, host=host).status == 403, host
    assert ask(page, host=f"localhost:{port}").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_pages_are_only_read(page: str, method: str) -> None:
    refused = ask(page, method=method)
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
    got, head = ask(page), ask(page, method="HEAD")
    assert (head.status, head.text) == (200, "")
    assert head.headers["Content-Type"] == got.headers["Content-Type"]
    assert int(head.headers["Content-Length"]) == len(got.text.encode())


def test_every_answer_keeps_to_itself(page: str) -> None:
    paths = ["", "compare", ask(page).link("full"), "nothing-here", "compare.csv"]
    for found in [*(ask(page, path) for path in paths), ask(page, token="/wrong/")]:
        policy = found.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert found.headers["Referrer-Policy"] == "no-referrer"
        assert found.headers["Cache-Control"] == "no-store"
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        assert "Set-Cookie" not in found.headers
        assert "http:" not in found.text.replace("http://www.w3.org", "")


def test_no_path_leads_into_the_file_system(page: str) -> None:
    out = ("../", "report/..%2f..%2fetc%2fpasswd", "run/%2e%2e/%2e%2e/run.json", "run/%00")
    no_run = (f"report/{'0' * 16}", "report/full", "full/run.json", "run/", "report", "compare.exe")
    for path in (*out, *no_run, "?" + "&".join(f"run={i}" for i in range(2000))):
        found = ask(page, path)
        assert found.status in (403, 404), path
        assert "root:" not in found.text


def test_what_is_no_request_is_refused_in_one_line(page: str) -> None:
    place = urlsplit(page)
    with socket.create_connection((str(place.hostname), place.port or 0), timeout=5) as plug:
        plug.sendall(b"\x16\x03\x01 what\r\n\r\n")
        said = plug.recv(4000).decode()
    assert "This request is not understood." in said
    assert ask(page).status == 200


def test_a_browser_is_told_an_address_that_opens_once(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its arguments are everybody's to read; the token is not in them."""
    said: list[str] = []

    def opened(opening: str) -> None:
        (address,) = said
        token = urlsplit(address).path
        assert token.strip("/") not in opening
        word = urlsplit(opening).path
        assert ask(address, token=word, method="HEAD").status == 403
        first = ask(address, token=word)
        assert (first.status, first.headers["Location"]) == (302, token)
        assert [ask(address, token=word).status for _ in range(2)] == [403, 403]
        assert ask(address).status == 200
        said.append(opening)
        raise KeyboardInterrupt

    monkeypatch.setattr(viewer.webbrowser, "open", opened)
    monkeypatch.setenv("DISPLAY", ":0")
    viewer.view(kept, ready=said.append)
    assert len(said) == 2


def test_without_a_screen_no_browser_takes_the_terminal(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(opening: str) -> None:
        raise AssertionError(opening)

    monkeypatch.setattr(viewer.sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(viewer.webbrowser, "open", opened)
    interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    viewer.view(kept, ready=lambda address: interrupt.start())
    interrupt.join()


def test_reading_changes_nothing_in_the_folder(page: str, kept: Path) -> None:
    def tree() -> dict[str, tuple[int, int]]:
        files = (Path(at) / name for at, _, names in os.walk(kept) for name in names)
        return {str(f): (f.stat().st_mtime_ns, f.stat().st_size) for f in files}

    before = tree()
    listed = ask(page)
    ask(page, listed.link("full"))
    ask(page, f"compare?run={listed.id('full')}&run={listed.id('npo/run')}")
    assert tree() == before
