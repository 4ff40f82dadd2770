# SPDX-License-Identifier: Apache-2.0
"""Texts: joined, cut, matched, hashed, written of numbers, and what only Unicode's tables know."""
import base64

import numpy as np
import tensorflow as tf

from .inputs import case, cases


def some(i, *more):
    return (i.shape("texts"), *more)


cases("StringLength StringStrip StringLower StringUpper EncodeBase64", lambda i: [i.texts()])
case("StringLength, characters", lambda i: [i.texts(alphabet="aüz世")], unit="UTF8_CHAR")
case("StringLower, of Unicode; StringUpper, of Unicode", lambda i: [i.texts(alphabet="aBÜüz世Σ")], encoding="utf-8")


def encoded(i):
    words = i.words(some(i))
    words[:] = [base64.urlsafe_b64encode(one).rstrip(b"=") for one in words]
    return i.read(words)


cases("DecodeBase64", lambda i: [encoded(i)])
cases("StringJoin", lambda i: [[i.texts(), i.texts()]], separator=" and ")
case("ReduceJoin, rows", lambda i: [i.read(i.words((i.shape("texts") // 4, 4))), [1]], separator=",")
case("ReduceJoin, all", lambda i: [i.texts(), [0]], separator=",")
cases(
    "UnsortedSegmentJoin",
    lambda i: [i.texts(), i.ints(some(i), max(2, i.shape("texts") // 4)), max(2, i.shape("texts") // 4)],
    separator=",",
)
cases("Substr", lambda i: [i.texts(low=6), np.int32(1), np.int32(4)])
case("Substr, characters", lambda i: [i.texts(low=6, alphabet="aüz世"), np.int32(1), np.int32(4)], unit="UTF8_CHAR")
cases("StringSplit", lambda i: [i.texts(), b" ,"])
cases("StringSplitV2", lambda i: [i.texts(), b","])
case("StringSplitV2, at white space", lambda i: [i.texts(), b""])
cases("RegexFullMatch", lambda i: [i.texts(), b"[a-c ]*([0-9]+).*"])
cases("StaticRegexFullMatch", lambda i: [i.texts()], pattern="[a-c ]*([0-9]+).*")
cases("RegexReplace", lambda i: [i.texts(), b"([0-9])[a-z]", b"<\\1>"])
cases("StaticRegexReplace", lambda i: [i.texts()], pattern="([0-9])[a-z]", rewrite="<\\1>")
case("StaticRegexReplace, the first", lambda i: [i.texts()], pattern="[0-9]+", rewrite="#", replace_global=False)
cases("StringToHashBucket StringToHashBucketFast", lambda i: [i.texts()], num_buckets=1000)
cases("StringToHashBucketStrong", lambda i: [i.texts()], num_buckets=1000, key=[1, 2])
cases(
    "StringNGrams",
    lambda i: [i.texts(), i.read(np.arange(0, i.shape("texts") + 1, 4).astype(np.int64))],
    separator=" ",
    ngram_widths=[1, 2],
    left_pad="",
    right_pad="",
    pad_width=0,
    preserve_short_sequences=False,
)
case("AsString, float", lambda i: [i.floats(some(i))])
case("AsString, float, shortest", lambda i: [i.floats(some(i))], shortest=True)
case("AsString, int32", lambda i: [i.ints(some(i), 1 << 30)])
case("AsString, int64, of width 12", lambda i: [i.ints(some(i), 1 << 40, dtype=np.int64)], width=12, fill="0")
case("AsString, bool", lambda i: [i.ints(some(i), 2, dtype=np.bool_)])
cases(
    "StringFormat",
    lambda i: [[i.floats((i.pick(4, 16, 64), 4))]],
    template="numbers: %s",
    summarize=lambda i: i.pick(3, 16, 64),
)

# Unicode.
cases("UnicodeDecode UnicodeDecodeWithOffsets", lambda i: [i.texts(alphabet="abcü世 ")], input_encoding="UTF-8")
case(
    "UnicodeDecode, UTF-16",
    lambda i: [i.read(np.array([b"".join(b"\x00" + bytes([c]) for c in one) for one in i.words(some(i))], object))],
    input_encoding="UTF-16-BE",
)
cases("UnicodeTranscode", lambda i: [i.texts(alphabet="abcü世 ")], input_encoding="UTF-8", output_encoding="UTF-16-BE")
case(
    "UnicodeTranscode, to the same",
    lambda i: [i.texts(alphabet="abcü世 ")],
    input_encoding="UTF-8",
    output_encoding="UTF-8",
)
cases(
    "UnicodeEncode",
    lambda i: [
        i.ints((8 * i.shape("texts"),), 0x2FF, 32),
        i.read(np.arange(0, 8 * i.shape("texts") + 1, 8).astype(np.int64)),
    ],
    output_encoding="UTF-8",
)
cases("UnicodeScript", lambda i: [i.ints((8 * i.shape("texts"),), 0x2ff, 32)])
case("ConcatV2, texts", lambda i: [[i.texts(), i.texts()], 0])
case("Equal, texts", lambda i: [i.texts(), i.texts()])
case("Tile, texts", lambda i: [i.texts(), [2]])
