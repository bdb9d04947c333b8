"""The matching rule as one table, and draws and proofs that follow it."""

from __future__ import annotations

import random
import unicodedata
from functools import cache
from itertools import product

import pytest

from leakbound.scorers import make_scorer
from leakbound.text import characters
from leakbound.text.keywords import normalise, occurs, places, settled
from leakbound.types import Prompt

MATCHING = (  # keyword, text
    # Latin
    ("Ron", "Ask RON."), ("Ron", "Ron"), ("Ron", "(ron)"), ("J.K.", "by J.K. Rowling"),
    ("J.K.", "by J.K.Rowling"), ("C++", "He writes C++."), ("C++", "C++17"), ("$5", "US$5, or"),
    ("Daily Prophet", "the daily\n  prophet"), ("Ann Lee", "Ann\u00a0Lee leads"),
    ("Ann Lee", "Ann\u202f\tLee"), ("Straße", "STRASSE"), ("Café", "Cafe\u0301 Noir"),
    ("José Silva", "Jose\u0301 Silva"), ("Bluebird", "Ｂｌｕｅｂｉｒｄ"), ("ﬁnd", "find it"),
    ("O'Brien", "O’Brien’s"), ("O'Brien", "O\u2018Brien"), ("Hawai'i", "in Hawai\u02bbi"),
    ("5'11", "He is 5\u203211."), ("O'Brien", "O´Brien"), ("D'Arc", "D\u1ffdArc"),
    ('the "Lark"', "called the “Lark”"), ('the "Lark"', "the «Lark»"),
    ("Anne-Marie", "Anne\u2011Marie"), ("555-0143", "Call 555\u20100143"),
    ("-4", "it is \u22124"), ("1990\u20131995", "From 1990-1995."), ("a-b", "a\ufe58b"),
    ("a-b", "a\uff0db"), ("Blue\u00adbird", "It is Bluebird."), ("Bluebird\u200b", "Bluebird"),
    ("Bluebird", "Blue\u200dbird"), ("\ufeffBluebird", "Bluebird!"),
    ("Bluebird", "Blue\u034fbird"), ("Bluebird", "\u3164Bluebird\ufe0f"),
    ("Bluebird", "_Bluebird_"), ("Bluebird", "**Bluebird**"), ("Bluebird", "|**Bluebird**|"),
    ("Bluebird", "***_Bluebird_***,"), ("Bluebird", "`Bluebird`"), ("Bluebird", "~~Bluebird~~"),
    ("Ann Lee", "**Ann** Lee"), ("Ann Lee", "**Ann* *Lee**"), ("__init__", "an `init`"),
    ("my_secret_key", "a my_secret_key."), ("Bluebird", "🐦Bluebird🐦"),
    ("3.14", r"\boxed{3.14}"), ("10²", "is 10² m"), ("½", "a ½ cup"), ("H₂O", "H2O"),
    ("Acme", "Acme™"), ("4471", "#4471,"), ("\ud800x", "a \ud800X"), ("e\u0308\u0323", "ẹ̈"),
    ("İda", "i\u0307da"),
    # Cyrillic, Greek
    ("Ольга", "её зовут ОЛЬГА."), ("Ольга", "«Ольга»"), ("Йорк", "И\u0306орк"),
    ("Ελένη", "η ΕΛΈΝΗ είναι"), ("οδός", "ΟΔΌΣ"), ("ᾳ", "ΑΙ"), ("Ὀρφεύς", "ὀρφεύσ,"),
    # Hebrew, Arabic
    ("אורי לב", "שמו אורי לב."), ("\u200fאורי לב", "אורי לב"), ("צ'ארלס", "צ׳ארלס גר"),
    ("برلين", "ولد في برلين."), ("برلين", "بر\u0640لين".replace("\u0640", "")), ("لا", "قال ﻻ"),
    # Han, kana
    ("蓝鸟", "代号是蓝鸟计划。"), ("东京", "他在东京工作"), ("京都", "東京都"),
    ("Bluebird", "代号是Bluebird计划"), ("Bluebird", "代号是**Bluebird**计划"),
    ("4471", "密码是4471号"), ("蓝鸟", "代号是*蓝*鸟"), ("東京タワー", "東京タワーの"),
    ("東京", "彼は東京に住む"), ("さくら", "これはさくらです"), ("ガス", "ｶﾞｽ"),
    ("がく", "か\u3099く"), ("コーヒー", "コーヒー2杯"), ("4時", "午後4時に"),
    ("佐々木", "佐々木さん"),
    # Thai, Lao, Khmer, Myanmar
    ("กรุงเทพ", "เขาอยู่ที่กรุงเทพมหานคร"), ("Bluebird", "ที่**Bluebird**ครับ"),
    ("ที่", "อยู่ที่นี่"), ("ວຽງຈັນ", "ຢູ່ວຽງຈັນແລ້ວ"), ("ភ្នំពេញ", "នៅភ្នំពេញជា"),
    ("ရန်ကုန်", "သူရန်ကုန်မှာ"),
    # Hangul
    ("서울", "그는 서울에 산다."), ("Bluebird", "Bluebird입니다"),
    ("김민수", "책임자는 김민수입니다"), ("4471", "번호는 4471번"),
    ("한글", "\u1112\u1161\u11ab\u1100\u1173\u11af"), ("서울", "**서울**에"),
    # Devanagari
    ("दिल्ली", "वह दिल्ली में है"), ("दिल्ली", "**दिल्ली**, भारत"), ("क़", "क\u093c ख"),
)  # fmt: skip
MISSING = (
    # Latin
    ("Ron", "a wrong front"), ("Ron", "Ronald"), ("Ron", "Ron_2"), ("Ron", "Ron*2"),
    ("Ron", "x_Ron"), ("Ron", "Rón"), ("Ron", "Ron\u0301"), ("Ron", "Ron\u200dald"),
    ("Ron", "Ron**ald"), ("J.K.", "JxKx"), ("Ron", "R on"), ("Ron", ""), ("Ron", "ro n"),
    ("Ron", "the moron"), ("Ann Lee", "Ann-Lee"), ("Ann Lee", "AnnLee"), ("Ann Lee", "Ann, Lee"),
    ("Ann Lee", "Ann\u200bLee"), ("O'Brien", "OBrien"), ("TX-4471", "TX4471"),
    ("TX4471", "TX-4471"), ("555-0143", "5550143"), ("C++", "C"), ("C", "C_x"),
    ("secret", "my_secret_key"), ("secret", "my__secret"), ("init", "my__init__x"),
    ("key", "a_key"), ("4471", "9447123"), ("4471", "44712"), ("4471", "94471"),
    ("4471", "A4471"), ("42", "It weighs 42kg."), ("10", "10²"), ("102", "10²"), ("12", "½"),
    ("1", "½"), ("3", "3½"), ("4471", "４４７１２"), ("$5", "$50"), ("$5", "$5²"),
    ("3.14", "3.141"), ("3.14", "13.14"), ("nurse", "nurses"), ("Straße", "Strase"),
    ("Café", "Cafe"), ("cafe", "café"), ("Ida", "İda"), ("a-b", "aーb"),
    ("snake_case", "snakecase"), ("snakecase", "snake_case"), ("2*3", "23"),
    ("Ankara", "Ankarada"), ("x", "x\u0304"), ("x", "\u0660x"), ("Bluebird", "Bluebird❶"),
    ("Bluebird", "①Bluebird"),
    # Cyrillic, Greek
    ("Ольга", "Ольгами"), ("Иван", "Иванов"), ("Ольга", "Ольг"), ("Ελένη", "Ελένης"),
    ("οδός", "περίοδός"),
    # Hebrew, Arabic: prefixes attach
    ("ברלין", "בברלין"), ("לב", "לבן"), ("لين", "برلين"), ("برلين", "وبرلين مدينته"), ("٤", "٤٢"),
    # Han, kana
    ("蓝鸟", "蓝色的鸟"), ("蓝鸟", "鸟蓝"), ("4471", "密码是44712号"), ("4471", "密码是９4471"),
    ("〇二", "二〇〇二"), ("Blue", "代号是Bluebird计划"), ("か", "がく"), ("は", "ぱ"),
    ("ガス", "カス"), ("東京", "東\u3000京"),
    # Thai, Lao, Khmer, Myanmar
    ("กรุงเทพ", "กรุงไทย"), ("๔๔", "๔๔๗"), ("4", "๔4"), ("ວຽງຈັນ", "ວຽງ"), ("ភ្នំពេញ", "ភ្នំ"),
    ("မှာ", "မှ"),
    # Hangul: only particles, after a word
    ("서울", "남서울에"), ("가", "각"), ("\u1100\u1161", "각"), ("4471", "44712번"),
    ("서울", "서 울"), ("울", "서울"),
    # Devanagari
    ("दिल्ली", "दिल्लीवाला"), ("दिल", "दिल्ली"), ("क", "कि"), ("ली", "दिल्ली"), ("४", "४२"),
)  # fmt: skip
SPECS = ("keyword", "keyword:require=all", "contains", "contains>=0.5", "choice")


def prompt_for(keyword: str) -> Prompt:
    return Prompt(
        id="q", question="?", answer=keyword, keywords=(keyword,), choices=(keyword, "zz zz zz")
    )


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(("table", "expected"), [(MATCHING, 1.0), (MISSING, 0.0)])
def test_draws_and_proofs_follow_the_table(spec, table, expected) -> None:
    """Proofs read character by character and settle on the score of the whole text."""
    scorer = make_scorer(spec)
    for keyword, text in table:
        prompt, row = prompt_for(keyword), (keyword, text)
        assert scorer.score([text], prompt) == [expected], row
        if spec != "choice":
            for cut in range(len(text) + 1):
                low, high = scorer.bounds(text[:cut], prompt)  # type: ignore[attr-defined]
                assert low <= expected <= high, row
            assert scorer.bounds(text + "\nso", prompt) == (expected, 1), row  # type: ignore[attr-defined]


@pytest.mark.parametrize("spec", ["keyword:match=substring", "contains:match=substring"])
def test_substrings_match_wherever_words_do(spec: str) -> None:
    for keyword, text in MATCHING:
        assert make_scorer(spec).score([text], prompt_for(keyword)) == [1], (keyword, text)


@pytest.mark.parametrize("spec", ["exact", "edit<=0", "hamming<=0", "edit:unit=words<=0"])
def test_spellings_of_one_text_are_equal(spec: str) -> None:
    same = [
        ("Ann Lee", " **ann**\u00a0lee"), ("O'Brien", "O’BRIEN\u200b"), ("Café", "CAFE\u0301"),
        ("A–B", "a-b"), ("10²", "10²"), ("__x__", "x"), ("東京", "`東京`"),
        ("한", "\u1112\u1161\u11ab"),
    ]  # fmt: skip
    other = [("10²", "102"), ("½", "1/2"), ("a_b", "ab"), ("Café", "cafe"), ("ー", "-"), ("x", "y")]
    for (answer, text), score in [*product(same, [1]), *product(other, [0])]:
        assert make_scorer(spec).score([text], answer) == [score], (answer, text)


@cache
def assigned() -> list[str]:
    """The characters of Unicode, except for 131,000 private ones of planes 15 and 16."""
    return [c for c in map(chr, range(0xF0000)) if unicodedata.category(c) != "Cn"]


@pytest.mark.thorough
def test_classes_equal_unicodes() -> None:
    """Compare with Unicode's tables in the package `regex`, for the characters that it knows."""
    regex = pytest.importorskip("regex")
    every = "".join(assigned())

    def having(*properties: str) -> set[str]:
        return {c for name in properties for c in regex.findall(rf"\p{{{name}}}", every)}

    unspaced = having(
        *(f"scx={name}" for name in ["Han", "Hira", "Kana", "Thai", "Laoo", "Khmr", "Mymr"])
    )
    hangul, unknown = having("scx=Hang"), having("Cn")
    assert {c for c in assigned() if not characters.plain(c)} - unknown == having("DI")
    assert {characters.plain(c) for c in having("Quotation_Mark")} == {"'", '"'}
    shared = set("\u02bc\u0303\u0305\u0323\u0331")  # also Latin, or of any script
    for c in set(filter(characters.joins, assigned())) - unknown - shared:
        if characters.plain(c) == c:
            assert characters.is_unspaced(c) == (c in unspaced), hex(ord(c))
            assert characters.is_hangul(c) == (c in hangul), hex(ord(c))


@pytest.mark.thorough
def test_superscripts_and_fractions_stay_and_all_else_is_compatible() -> None:
    for c in assigned():
        parts = unicodedata.decomposition(c).split()
        written = characters.plain(c)
        if parts[:1] in (["<super>"], ["<fraction>"]):
            assert written == c
            assert unicodedata.combining(c) == 0
        elif written and written not in "-'\"" and not set("-'\"") & set(written):
            assert written == unicodedata.normalize("NFKC", c)


@pytest.mark.thorough
def test_unicode_has_the_properties_the_proof_uses() -> None:
    """Only marks are reordered or compose (jamo by arithmetic); the first one decides the kind."""
    parts = ((c, unicodedata.decomposition(c).split()) for c in assigned())
    pairs = [(c, p) for c, p in parts if len(p) == 2 and p[0][0] != "<"]
    assert len(pairs) > 900
    for c, (first, second) in pairs:
        assert unicodedata.category(chr(int(second, 16)))[0] == "M"
        assert unicodedata.category(c)[0] == unicodedata.category(chr(int(first, 16)))[0]
        assert characters.is_unspaced(c) == characters.is_unspaced(chr(int(first, 16)))
    for c in assigned():
        assert unicodedata.combining(c) == 0 or unicodedata.category(c)[0] == "M"
        assert ("a" + c + "b").casefold() == "a" + c.casefold() + "b"
        first = c.casefold()[0]
        assert characters.joins(first) == characters.joins(c)
        assert (unicodedata.category(first)[0] == "M") == (unicodedata.category(c)[0] == "M") or (
            c == "\u0345"
        )


def literal(text: str) -> str:
    """Apply the rule step by step, without any of the shortcuts."""
    for marks, straight in (("‐‑‒–—―−", "-"), ("‘’‚‛′‵ʹʻʼʽ´", "'"), ("“”„‟″‶«»", '"')):
        for mark in marks:
            text = text.replace(mark, straight)
    pieces = [""]
    for c in text:
        if unicodedata.decomposition(c)[:6] in ("<super", "<fract"):
            pieces += [c, ""]
        else:
            pieces[-1] += c
    pieces[::2] = [unicodedata.normalize("NFKC", piece) for piece in pieces[::2]]
    text = "".join(pieces)
    text = "".join(
        c for c in text if c not in "\u00ad\u034f\u115f\u1160\u200b\u200d\u3164\ufe0f\ufeff"
    )
    text = unicodedata.normalize("NFC", text)  # marks that an ignorable character separated
    text = unicodedata.normalize("NFC", text.casefold())
    kept, at = "", 0
    while at < len(text):
        end = at
        while end < len(text) and text[end] in "*_~`":
            end += 1
        sides = [text[at - 1] if at else "", text[end] if end < len(text) else ""]
        joined = all(
            s and unicodedata.category(s)[0] in "LMN"
            and not any(name in unicodedata.name(s, "") for name in ("CJK", "KATAKANA", "HIRAGANA"))
            and "THAI" not in unicodedata.name(s, "")
            for s in sides
        )  # fmt: skip
        kept += text[at:end] if joined else ""
        kept += text[end : end + 1]
        at = end + 1
    return " ".join(kept.split())


ADVERSARIAL = [
    *"aeßİıΣςK’'-_*~`.<= 5²½™蓝かはがกี่서가각\u1100\u1161\u11a8é¨´",
    *"\u0301\u0338\u0345\u3099\u0323\u200d\u00ad\ufe0f\u3164\u034f\ufeff\u00a0\n\ufe58＊ ﬁ\u0e33क्",
    *("Ron", "ald", " ", " ", "**", "sorry", "東京"),
]


def scribble(rng: random.Random, most: int) -> str:
    return "".join(rng.choices(ADVERSARIAL, k=rng.randint(0, most)))


def test_shortcuts_agree_with_the_rule_read_literally() -> None:
    rng = random.Random(0)
    ascii_only = [c for c in ADVERSARIAL if c.isascii()]
    for i in range(8_000):
        text = scribble(rng, 8) if i % 2 else "".join(rng.choices(ascii_only, k=rng.randint(0, 8)))
        wanted, before = literal(text), text
        while wanted != before:
            wanted, before = literal(wanted), wanted
        assert normalise(text) == wanted, ascii(text)


@pytest.mark.thorough
def test_normalising_again_changes_nothing() -> None:
    for c in assigned():
        ideograph = unicodedata.name(c, "").startswith("CJK UNIFIED")  # 97,000 of one kind
        if unicodedata.category(c) in ("Co", "Cs") or "\u3400" < c < "\uf8ff" or ideograph:
            continue
        once = normalise(f"{c} a{c}b か{c}\u3099*{c}")
        assert normalise(once) == once, ascii(c)
    rng = random.Random(1)
    for _ in range(5_000):
        once = normalise(scribble(rng, 10))
        assert normalise(once) == once


@pytest.mark.parametrize(
    ("prefix", "text", "following"),
    [
        ("", "", ""), ("Ron", "ro", ""), ("Ron ", "ron", " "), ("Ron.", "ron", "."),
        (" ", "", ""), ("and Ron", "and ro", ""), ("and R", "and", " "), ("Ron*", "ro", ""),
        ("Ron*a", "ro", ""), ("Ron*ab", "ron*a", ""), ("Ron* ", "ron", " "),
        ("Ron\u200d", "ro", ""), ("né", "n", ""), ("Ron\u200d.", "ron", "."),
        ("Ron*\u200d", "ro", ""), ("J_", "", ""), ("**", "", ""), ("蓝鸟", "蓝", ""),
        ("蓝鸟计", "蓝鸟", ""), ("か\u3099", "", ""), ("서울", "서", ""),
        ("서울\u11a8", "서", ""), ("กี่", "", ""), ("กี่ก", "กี่", ""), ("10²", "10", ""),
        ("Ron=", "ron", "."), ("Ron¨", "ron", " "), ("R*a", "", ""), ("\u200d*R*a", "", ""),
        ("나라가", "나라", ""), ("나라힣", "나라", ""), ("나라\u1100", "나", ""),
    ],
)  # fmt: skip
def test_scores_that_a_prefix_settles(prefix: str, text: str, following: str) -> None:
    assert settled(prefix) == (text, following)


def test_the_words_of_an_opening_are_complete() -> None:
    openings = ("and Ron ", "and Ron", "and Ron.", "Ron")
    assert [settled(prefix).words for prefix in openings] == ["and ron", "and", "and", ""]


def test_continuations_change_nothing_settled() -> None:
    rng = random.Random(2)
    closed = 0
    for _ in range(15_000):
        prefix, more = scribble(rng, 8), scribble(rng, 6)
        opening, whole = settled(prefix), normalise(prefix + more)
        assert whole.startswith(opening.text), ascii((prefix, more))
        after = whole[len(opening.text) :][:1]
        if opening.following and after:
            closed += 1
            assert not characters.joins(after), ascii((prefix, more))
            assert opening.following == "." or after == " ", ascii((prefix, more))
    assert closed > 500


def test_places_overlap_and_know_what_follows() -> None:
    assert list(places("a a", "a a a")) == [0, 2]
    assert list(places("a", "a a a")) == [0, 2, 4]
    assert list(places("蓝蓝", "蓝蓝蓝")) == [0, 1]
    assert occurs("ron", "ron", ".")
    assert occurs("ron", "ron")
    assert not occurs("ron", "ron", "")
    assert all(occurs(keyword, keyword, "") for keyword in ("蓝", "서", "c++"))
    assert not any(occurs(keyword, keyword, "") for keyword in ("๔", "ron"))
    assert not occurs("ron", "ron", "d")
