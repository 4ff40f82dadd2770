# SPDX-License-Identifier: Apache-2.0
"""Cases of the string package: texts that are joined, cut, split, matched, replaced, hashed, and written of numbers."""
import numpy as np
import tensorflow as tf

from .draw import Case, op


def texts(values, shape=None):
    """A tensor of bytes, whatever they are."""
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape((len(values),) if shape is None else shape)


def scalar(value):
    return np.array(value, object)


def of(d, shape, alphabet, longest=8):
    """Texts of pieces of an alphabet."""
    count = int(np.prod(shape, dtype=int))
    return texts([b"".join(d.pick(alphabet) for _ in range(d.int(0, longest))) for _ in range(count)], shape)


UNICODE = [
    b"a",
    b"Z",
    b" ",
    "ü".encode(),
    "世".encode(),
    "\U0001f600".encode(),
    b"\xff",
    b"\x80",
    b"\xc3",
    b"\xe4\xb8",
    b"\x00",
    "\u0301".encode(),
]


@op("ReduceJoin", count=50)
def reduce_join(d):
    shape = d.shape(0, 4, large=0.02)
    axes = d.axes(len(shape), tf.int32)
    if d.chance(0.05):
        axes = np.append(axes, d.pick([0, -1, 4, -7])).astype(np.int32)
    if len(axes) == 1 and d.chance(0.4):
        axes = axes.reshape(())
    return Case(
        [d.tensor(tf.string, shape), d.given(axes)],
        {"keep_dims": d.chance(0.4), "separator": d.pick(["", ",", " and "])},
    )


@op("Substr", count=70)
def substr(d):
    t = d.dtype()
    shape, other = d.broadcast(high=3)
    if d.chance(0.5):
        other = d.pick([(), shape])
    words = of(d, shape, UNICODE) if d.chance(0.7) else d.tensor(tf.string, shape)
    far = d.pick([2, 2, 3, 9])
    pos = d.tensor(t, other, -far, far + 1)
    length = d.tensor(t, other, -1 if d.chance(0.2) else 0, d.pick([3, 6, 40]))
    if d.chance(0.05) and length.size:
        length.flat[0] = d.pick([2**31 - 1, -2**31])
    return Case([words, pos, length], {"unit": d.turn(["BYTE", "UTF8_CHAR"])})


@op("StringLength")
def string_length(d):
    return Case([of(d, d.shape(0, 3), UNICODE)], {"unit": d.turn(["BYTE", "UTF8_CHAR"])})


@op("AsString", count=110)
def as_string(d):
    dtype = d.dtype("T")
    attrs = {}
    reals = dtype.is_floating or dtype.is_complex
    if d.chance(0.5 if reals or dtype == tf.string else 0.08):
        attrs["precision"] = d.pick([0, 1, 3, 10, 25])
    if d.chance(0.5 if reals else 0.05):
        attrs[d.pick(["scientific", "shortest"])] = True
        if d.chance(0.04):
            attrs.update(scientific=True, shortest=True)
    if d.chance(0.4):
        attrs["width"] = d.pick([0, 1, 5, 12, 40])
    if d.chance(0.3):
        attrs["fill"] = d.pick([" ", "0", "-", "+", "#", "0"] if not d.chance(0.08) else ["x", "00"])
    return Case([d.tensor(dtype, d.shape(0, 3))], attrs)


@op("StringSplit", count=40)
def split(d):
    words = of(d, (d.int(0, 5),), [b"a", b"bc", b",", b" ", b";", b"\x00", b"  "])
    delimiter = scalar(d.pick([b" ", b",", b", ", b"", b";,", b"a"]))
    return Case([words, delimiter], {"skip_empty": d.chance(0.6)})


@op("StringSplitV2", count=50)
def split_v2(d):
    words = of(d, (d.int(0, 5),), [b"a", b"bc", b",", b" ", b"\t", b"<>", b"<", b"\n", b"  ", b"\v\f\r", "ü".encode()])
    return Case(
        [words, scalar(d.pick([b"", b"", b",", b"<>", b"aa", b"a"]))], {"maxsplit": d.pick([-1, -1, 0, 1, 2, 5])}
    )


PATTERNS = [
    b"a",
    b"a*",
    b"(a)(b)?",
    b"[a-c]+",
    b".*",
    b"^a|b$",
    b"",
    b"\\s+",
    b"\\d+",
    b"(?i)A",
    b"\\p{L}",
    b"[^a]",
    b"x*?",
    b"\\b",
    b"(.)(.)",
    b"(?P<n>b+)",
    b"\\C",
    b"$",
    b"(ab|c)*",
]
REWRITES = [b"", b"x", b"<\\0>", b"\\1", b"\\2\\1", b"[\\1]", b"\\\\", "ü".encode(), b"\\9", b"\\", b"\\x", b"a\\"]
LETTERS = [
    b"a",
    b"b",
    b"c",
    b"A",
    b" ",
    b"1",
    "ü".encode(),
    "世".encode(),
    b"\n",
    b"\xff",
    b"\xc3",
    b"ab",
    "\U0001f600".encode(),
]


def pattern_of(d):
    return d.pick([b"(", b"[", b"*", b"\\", b"a{2000}", b"(?<"]) if d.chance(0.06) else d.pick(PATTERNS)


def rewrite_of(d):
    return d.pick(REWRITES[:8] if not d.chance(0.15) else REWRITES)


@op("RegexReplace", count=60)
def regex_replace(d):
    return Case(
        [of(d, d.shape(0, 3), LETTERS), scalar(pattern_of(d)), scalar(rewrite_of(d))], {"replace_global": d.chance(0.7)}
    )


@op("StaticRegexReplace", count=60)
def static_regex_replace(d):
    return Case(
        [of(d, d.shape(0, 3), LETTERS)],
        {"pattern": pattern_of(d), "rewrite": rewrite_of(d), "replace_global": d.chance(0.7)},
    )


@op("RegexFullMatch", count=40)
def regex_full_match(d):
    return Case([of(d, d.shape(0, 3), LETTERS, longest=3), scalar(pattern_of(d))])


@op("StringToHashBucketStrong", "StringToHashBucket", count=40)
def buckets(d):
    longest = d.pick([9, 17, 33, 66, 130, 400])
    words = [bytes(d.random.integers(0, 256, d.int(0, longest)).astype(np.uint8)) for _ in range(d.int(0, 9))]
    attrs = {"num_buckets": d.pick([1, 2, 10, 1000, 2**31, 2**62 + 1, 2**63 - 1])}
    if d.op.endswith("Strong"):
        attrs["key"] = [
            d.pick([0, 1, -1, d.int(-(2**62), 2**62)]) for _ in range(2 if not d.chance(0.05) else d.pick([0, 1, 3]))
        ]
    return Case([texts(words)], attrs)


# ---- Letters, encodings ----

LETTERED = UNICODE + [
    "Ä".encode(),
    "ß".encode(),
    "Σ".encode(),
    "σΣ ".encode(),
    "İ".encode(),
    "ﬁ".encode(),
    b"xY",
    b"\xf0\x9f",
    "ŉ".encode(),
]


@op("StringLower", "StringUpper", count=40)
def letters(d):
    encoding = d.pick(["", "utf-8", "utf-8"]) if not d.chance(0.04) else d.pick(["utf-16", "UTF-8"])
    return Case(
        [of(d, d.shape(0, 3), [one for one in LETTERED if one != b"\x00" or not encoding])],
        {"encoding": encoding},
        disturb=not encoding,
    )  # at a zero byte TensorFlow ends a text


@op("StringStrip")
def strip(d):
    return Case(
        [of(d, d.shape(0, 3), [b" ", b"\t", b"\n", b"\v", b"a", b"b c", b"\x00", b"\xc2\xa0", b"\r\f"], longest=5)]
    )


# Not UTF-16 with a mark of the order of bytes, which TensorFlow takes over to the texts that follow.
ENCODINGS = [
    "UTF-8",
    "UTF-8",
    "UTF-8",
    "UTF-16-BE",
    "UTF-16-LE",
    "UTF-32-BE",
    "US-ASCII",
    "latin1",
    "windows-1252",
    "shift-jis",
]


def encoding_of(d):
    return d.pick(ENCODINGS) if not d.chance(0.03) else d.pick(["nonsense", ""])


def policy(d):
    attrs = {"errors": d.pick(["replace", "replace", "ignore", "strict"])}
    if d.chance(0.4):
        attrs["replacement_char"] = (
            d.pick([0, 32, 63, 0x20AC, 0x1F600, 0xFFFD]) if not d.chance(0.06) else d.pick([-1, 0x110000, 2**31 - 1])
        )
    return attrs


def encoded(d, encoding, shape):
    """Mostly well-formed."""
    python = {"windows-1252": "cp1252", "shift-jis": "shift_jis", "nonsense": "utf-8", "": "utf-8"}.get(
        encoding, encoding
    )
    words = []
    for _ in range(int(np.prod(shape, dtype=int))):
        text = "".join(
            d.pick(["a", "Z", "ü", "世", "\U0001f600", "\n", "\x01", " ", "\u0301", "ﾊ"]) for _ in range(d.int(0, 6))
        )
        word = text.encode(python, errors="ignore")
        if d.chance(0.15):
            word = d.pick(
                [
                    word[:-1],
                    word + b"\xff",
                    b"\x80" + word,
                    word + b"\xed\xa0\x80",
                    word + b"\xf4\x90\x80\x80",
                    word + b"\xc0\xaf",
                ]
            )
        words.append(word)
    return texts(words, shape)


@op("UnicodeDecode", "UnicodeDecodeWithOffsets", count=60)
def unicode_decode(d):
    encoding = encoding_of(d)
    return Case(
        [encoded(d, encoding, d.shape(1, 1, large=0))],
        {
            "input_encoding": encoding,
            "replace_control_characters": d.chance(0.3),
            "Tsplits": tf.int64 if d.op.endswith("Offsets") else d.pick([tf.int32, tf.int64]),
            **policy(d),
        },
    )  # of int32 TensorFlow dies there


@op("UnicodeTranscode", count=70)
def unicode_transcode(d):
    encoding = encoding_of(d)
    return Case(
        [encoded(d, encoding, d.shape(0, 2, large=0))],
        {
            "input_encoding": encoding,
            "output_encoding": d.pick(["UTF-8", "UTF-16-BE", "UTF-32-BE"]),
            "replace_control_characters": d.chance(0.3),
            **policy(d),
        },
    )


@op("UnicodeEncode", count=50)
def unicode_encode(d):
    points = [
        (
            d.pick([65, 0x20, 0xFC, 0x4E16, 0x1F600, 0x10FFFF, 0x7FF, 0x800, 0xFFFF, 0])
            if not d.chance(0.06)
            else d.pick([-1, 0x110000, 0xD800, 0xDFFF])
        )
        for _ in range(d.int(0, 9))
    ]
    cuts = sorted(d.int(0, len(points)) for _ in range(d.int(0, 3)))
    splits = np.array([0, *cuts, len(points)], d.pick([np.int32, np.int64]))
    if d.chance(0.05):
        splits[d.int(0, len(splits) - 1)] += d.pick([-1, 1, 5])
    return Case(
        [np.array(points, np.int32), splits],
        {"output_encoding": d.pick(["UTF-8", "UTF-16-BE", "UTF-32-BE"]), **policy(d)},
    )


@op("UnicodeScript", count=20)
def unicode_script(d):
    """Of characters that have been in Unicode for long."""
    return Case(
        [
            np.array(
                [
                    d.pick(
                        [
                            65,
                            0x4E16,
                            -1,
                            0x110000,
                            0x1F600,
                            0x3B1,
                            0x5D0,
                            0x627,
                            0x905,
                            0xAC00,
                            0x3042,
                            0x30A2,
                            0x410,
                            48,
                            0x301,
                            2**31 - 1,
                            -(2**31),
                            0xD800,
                        ]
                    )
                    for _ in range(d.int(0, 6))
                ],
                np.int32,
            )
        ]
    )


@op("EncodeBase64")
def encode_base64(d):
    shape = d.shape(0, 2)
    return Case(
        [
            texts(
                [
                    bytes(d.random.integers(0, 256, d.int(0, 12)).astype(np.uint8))
                    for _ in range(int(np.prod(shape, dtype=int)))
                ],
                shape,
            )
        ],
        {"pad": d.chance(0.5)},
    )


@op("DecodeBase64", count=40)
def decode_base64(d):
    import base64
    words = []
    for _ in range(d.int(0, 4)):
        word = base64.urlsafe_b64encode(bytes(d.random.integers(0, 256, d.int(0, 12)).astype(np.uint8)))
        if d.chance(0.4):
            word = word.rstrip(b"=")
        if d.chance(0.06):
            word = d.pick(
                [
                    word + b"=",
                    word[:-1],
                    word + b"==",
                    b"=" + word,
                    word + b"+/",
                    word.replace(b"A", b" "),
                    word + b"\x00",
                    word + b"a",
                    b"YR",
                    b"YW==",
                ]
            )
        words.append(word)
    return Case([texts(words)])


# ---- Joined by rows ----

@op("StringNGrams", count=70)
def ngrams(d):
    rows = d.int(0, 4)
    lengths = d.random.integers(0, 5, rows)
    kind = d.pick([np.int32, np.int64])
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(kind)
    if not splits[-1] and d.chance(0.2):  # of texts without splits TensorFlow makes as many empty ones
        splits = splits[:0]
    if splits.size and d.chance(0.05):
        splits[d.int(0, splits.size - 1)] += d.pick([-1, 1, 9])
    data = texts([d.pick([b"a", b"bb", b"", "ü".encode()]) + b"%d" % i for i in range(int(lengths.sum()))])
    widths = [d.int(1, 5) for _ in range(d.int(0, 3))] if not d.chance(0.04) else [d.pick([0, -1])]
    return Case(
        [data, splits],
        {
            "separator": d.pick([" ", "", "|"]),
            "ngram_widths": widths,
            "left_pad": d.pick(["", "<", "LP"]),
            "right_pad": d.pick(["", ">", "RP"]),
            "pad_width": d.pick([-1, 0, 0, 1, 2, 5]),
            "preserve_short_sequences": d.chance(0.4),
        },
        disturb=False,
    )


@op("UnsortedSegmentJoin", count=50)
def segment_join(d):
    shape = d.shape(1, 3, large=0)
    segments = d.int(0, 5)
    t, n = d.pick([tf.int32, tf.int64]), d.pick([tf.int32, tf.int64])
    ids = d.tensor(
        t, shape[: d.int(1, len(shape))], -1 if d.chance(0.1) else 0, max(1, segments) + (1 if d.chance(0.06) else 0)
    )
    return Case(
        [d.tensor(tf.string, shape), ids, d.ints(segments if not d.chance(0.04) else -1, n)],
        {"separator": d.pick(["", ",", " and "])},
    )


# ---- For people ----

@op("StringFormat", count=90)
def string_format(d):
    kinds = [
        tf.float32,
        tf.float64,
        tf.int32,
        tf.int64,
        tf.string,
        tf.bool,
        tf.float16,
        tf.bfloat16,
        tf.uint8,
        tf.int8,
        tf.int16,
        tf.uint16,
        tf.uint32,
        tf.uint64,
        tf.complex64,
    ]
    values = [d.tensor(d.turn(kinds) if i == 0 else d.pick(kinds), d.shape(0, 4)) for i in range(d.int(0, 3))]
    placeholder = d.pick(["%s", "{}", "@@"])
    pieces = [d.pick(["", "x: ", "ü\n", "% "]) for _ in range(len(values) + 1 + (1 if d.chance(0.05) else 0))]
    return Case(
        [values],
        {"template": placeholder.join(pieces), "placeholder": placeholder, "summarize": d.pick([-1, 0, 1, 2, 3, 5])},
        gradients=False,
    )


@op("Print", count=25)
def print_values(d):
    """What it gives; what it writes is the package's own test's."""
    return Case(
        [
            d.tensor(d.pick([tf.float32, tf.string, tf.int64, tf.bool]), d.shape(0, 3)),
            [d.tensor(tf.float32, d.shape(0, 2)) for _ in range(d.int(0, 2))],
        ],
        {"message": "words: ", "first_n": d.pick([-1, 0, 2]), "summarize": d.pick([-1, 0, 3])},
    )


@op("PrintV2", count=12)
def print_text(d):
    return Case(
        [scalar(d.pick([b"", b"words", b"two\nlines"]))],
        {
            "output_stream": (
                d.pick(["stderr", "log(info)", "log(warning)", "log(error)"]) if not d.chance(0.2) else "printer"
            ),
            "end": d.pick(["\n", ""]),
        },
    )
