"""What a decoding says of itself: to engines, and to whoever looks for what was changed."""

from __future__ import annotations

import pytest

from leakbound.errors import InputError
from leakbound.types import Decoding, Draws
from leakbound.types.decoding import CUTS
from leakbound.types.records import changed

CUT = Decoding(temperature=0.7, top_k=5, top_p=0.9, max_new_tokens=9, stop=("x",))


def test_every_setting_that_cuts_truncates_by_itself_and_stands_in_the_name() -> None:
    assert not Decoding(temperature=0.3).truncated
    for cut, (label, keeps_all) in CUTS.items():
        one = Decoding(**{cut: 0.5 if isinstance(keeps_all, float) else 3})
        assert one.truncated
        assert f" {label}=" in one.name
    assert CUT.name == "T=0.7 top-k=5 top-p=0.9"


def test_the_greediest_is_as_long_and_cuts_nothing() -> None:
    greedy = Decoding(temperature=0.0, max_new_tokens=9, stop=("x",))
    assert CUT.greediest == greedy
    assert Decoding(adaptive_temperature=0.5).greediest == Decoding(temperature=0.0)


def test_what_an_engine_does_not_offer_is_named() -> None:
    assert CUT.beyond("temperature", "max_new_tokens", "stop") == ["top_p", "top_k"]
    assert CUT.beyond(*changed(CUT)) == Decoding().beyond() == []
    with pytest.raises(InputError, match="top_p"):
        Decoding(top_p=0)


def test_chunks_are_numbered_from_the_first() -> None:
    assert Draws(sizes=(4, 3), first_chunk=2).chunks("q") == [(2, 4), (3, 3)]
    own = Draws(sizes=(9,), draws_per_query={"q": 7})
    assert own.chunks("q") == [(0, 7)]
