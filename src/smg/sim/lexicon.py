"""Words for simulated answers: the same key always speaks the same text.

A keyed stream of bytes picks words and ends sentences. The stream does not depend on how much of it is asked for, so a
longer text begins with every shorter one. Everything is ASCII and needs no escaping in JSON, which is what lets answers
be cut and joined as plain text.
"""

from __future__ import annotations

import hashlib

# Exactly 256, one a byte. No word is shorter than three letters, so n words and their spaces fill 4n characters.
_WORDS = (
    "about above across after again ahead almost alone along amber among ample anchor answer apple arrow ashes "
    "autumn aware bamboo barely basin beacon before begin behind bells below beside between beyond birch blue "
    "board boats both bread breeze bridge bright broad brook brush bucket build button cabin calm canal candle "
    "canyon carry cedar chalk change chapel clay clear cliff clock cloud coast cold copper coral corner cotton "
    "could cover crane creek cross crystal current daily dance dawn deep delta desert detail distant door draw "
    "drift early earth east echo edge eight ember empty engine enough even evening every field fifty figure "
    "find fire first flame flint float flow follow forest forge form forty found four fresh frost full garden "
    "gate gather gentle glass gold grain granite grass gravel green grove guide harbor hard harvest haven "
    "hazel hidden hill hold hollow honey horizon hour house idea indigo inner iron island ivory jade join "
    "journey keen kept kind kite ladder lake lamp lantern large later leaf learn ledge lemon level light lime "
    "linen listen little local long lowland lunar map maple marble margin market meadow measure mellow metal "
    "middle mild mill mineral mirror mist moment moon moss motion mountain narrow near needle night noble "
    "north note number oak ocean olive only open orange orbit order other outer over page paint palm paper "
    "pass past path patient pattern pearl pebble people piano pine place plain plane plant polar pond prairie "
    "quartz quiet rain raven reed ribbon ridge river salt shore silver slow stone summer tide valley willow "
    "winter yard"
)
WORDS = _WORDS.split()

SENTENCE_END = 24  # of 256 bytes so many end a sentence: one of about eleven words


def speak(key: bytes, length: int) -> str:
    """`length` characters of the text that belongs to `key`."""
    words: list[str] = []
    starts = True
    # Two bytes a word: one picks it, one says whether it ends a sentence.
    stream = hashlib.shake_128(key).digest(2 * (length // 4 + 1))
    for pick, end in zip(stream[::2], stream[1::2], strict=True):
        word = WORDS[pick]
        if starts:
            word = word.capitalize()
        starts = end < SENTENCE_END
        words.append(word + "." if starts else word)
    return " ".join(words)[:length]
