"""Whether a question is in English, told by its script and its function words."""

from __future__ import annotations

import re
import unicodedata

from leakbound.inputs.english.questions import REQUESTS, masked, words_of
from leakbound.text.keywords import STOPWORDS

# What questions in German, Dutch, French, Spanish, Portuguese, Italian and Scandinavian languages
# are made of. A word that English has as well speaks for neither (`_EITHER`).
_OTHERS = words_of(
    """
    aber alle als am an auch auf aus bei das dass dem den der des die ein eine einem einen einer
    eines er es für gab gibt hat hatte heißt ich ihm ihr ihre im in ist kann man mit nach oder
    schrieb sein seine seinem seinen seiner sich sie sind über um und uns von vor wann war waren
    warum was welche welchem welchen welcher welches wem wen wer werden wessen wie wird wo wofür
    woher wohin wurde wurden zu zum zur

    aan bij dat de deze dit door een en heeft het hij hoe hoeveel in kan met naar niet om ook op
    over schreef te tot uit van voor waar waarin waarom wat welk welke werd wie wordt zijn

    a au aux avec ce cette ces comment dans de des du elle elles en est et été il ils la le les
    leur lui on où ou par pas pour pourquoi qu quand que quel quelle quelles quels qui quoi sa
    sans ses son sont sur un une vous

    a al como cómo con cual cuál cuáles cuando cuándo cuánto cuántos de del donde dónde e el ella
    en era es esta este está fue ha hay la las le lo los más no para pero por porque qué que quien
    quién quiénes se ser sin sobre son su sus un una y

    ao aos as com da das do dos em foi mais não na nas nem no nos o os ou pela pelo por qual quais
    quando quantos quanto quem sua suas seu seus são um uma onde é

    che chi ci come cosa cui da dal dalla dei del della delle di dove e gli ha i il in la le lo ma
    nel nella non per perché più qual quale quali quando quanto quanti si sono su sua suo un una è

    att av blev da den der det en er ett för från ham han har hon hun hur hva hvad hvem hvilken
    hvilket hvilke hvor hvordan hvorfor i med någon og och ikke inte på som til till till är vad
    var vem vilken vilket vilka
    """
)
_ENGLISH = STOPWORDS | REQUESTS | words_of("always born is please")
_EITHER = _ENGLISH & _OTHERS | words_of("come die me men per sin son us van war")
_WORD = re.compile(r"[^\W\d_]{2,}(?:[-'’][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"\w['’]s?(?= [a-z])")
_SENTENCE = re.compile(r"[.?!:]\s")
# The small words within a name, which need not be of the question's language.
_SMALL = "al and bin da das de del den der di do dos du e el et la las le los of the und van von y"
_IN_NAME = re.compile(rf"(?<=\w )([A-Z][\w.-]*)(?: (?:{'|'.join(_SMALL.split())}))+(?= [A-Z])")


def is_english(question: str) -> bool:
    """True if a question or request is in English, as far as its words show.

    Most of its letters are Latin, and of its function words more are English than are of the
    other languages known here; a possessive speaks for English, a word with an accent against.
    Titles in quotation marks, names, and small words within a name do not count. A text without
    any other word, as "42?", is of every language.
    """
    bare = masked(question)
    letters = [sign for sign in bare if sign.isalpha()]
    latin = sum(unicodedata.name(sign, "").startswith("LATIN") for sign in letters)
    if 2 * latin < len(letters):
        return False
    words = [word for part in _SENTENCE.split(bare) for word in _words(part)]
    english = sum(word.lower() in _ENGLISH for word in words) + len(_POSSESSIVE.findall(bare))
    others = sum(word.lower() in _OTHERS or _accented(word) for word in words)
    return english > others or not words


def _words(sentence: str) -> list[str]:
    """The words that speak for a language: in small letters, or the first of the sentence."""
    found = [match[0] for match in _WORD.finditer(_IN_NAME.sub(r"\1", sentence))]
    counted = [word for at, word in enumerate(found) if at == 0 or word[0].islower()]
    return [word for word in counted if word.lower() not in _EITHER]


def _accented(word: str) -> bool:
    return word.islower() and not word.isascii()
