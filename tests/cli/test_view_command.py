"""`leakbound view`: one address, and an end without a word."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from commands import leakbound, refused


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_and_ends_quietly(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "leakbound", "view", str(tmp_path)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # what a shell starts in the background ignores it, and so do its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        try:
            assert running.stdout is not None
            address = running.stdout.readline().strip()
            assert urlsplit(address).hostname == "127.0.0.1"
            with urllib.request.urlopen(address) as page:
                assert f"Runs in {tmp_path.name}" in page.read().decode()
            running.send_signal(number)
            out, err = running.communicate()
        finally:
            running.kill()
    assert (running.returncode, out, err) == (0, "", "")


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    refused(leakbound("view", tmp_path / "rnus"), "is no folder", "Name one that runs lie in")
    refused(leakbound("view", tmp_path, "--port", 99999), "99999")
