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


UNICODE = [b"a", b"Z", b" ", "ü".encode(), "世".encode(), "\U0001f600".encode(), b"\xff", b"\x80", b"\xc3", b"\xe4\xb8", b"\x00", "\u0301".encode()]


@op("ReduceJoin", count=50)
def reduce_join(d):
    shape = d.shape(0, 4, large=0.02)
    axes = d.axes(len(shape), tf.int32)
    if d.chance(0.05):
        axes = np.append(axes, d.pick([0, -1, 4, -7])).astype(np.int32)
    if len(axes) == 1 and d.chance(0.4):
        axes = axes.reshape(())
    return Case([d.tensor(tf.string, shape), d.given(axes)], {"keep_dims": d.chance(0.4), "separator": d.pick(["", ",", " and "])})


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
    return Case([words, scalar(d.pick([b"", b"", b",", b"<>", b"aa", b"a"]))], {"maxsplit": d.pick([-1, -1, 0, 1, 2, 5])})


PATTERNS = [b"a", b"a*", b"(a)(b)?", b"[a-c]+", b".*", b"^a|b$", b"", b"\\s+", b"\\d+", b"(?i)A", b"\\p{L}", b"[^a]", b"x*?", b"\\b", b"(.)(.)", b"(?P<n>b+)", b"\\C", b"$", b"(ab|c)*"]
REWRITES = [b"", b"x", b"<\\0>", b"\\1", b"\\2\\1", b"[\\1]", b"\\\\", "ü".encode(), b"\\9", b"\\", b"\\x", b"a\\"]
LETTERS = [b"a", b"b", b"c", b"A", b" ", b"1", "ü".encode(), "世".encode(), b"\n", b"\xff", b"\xc3", b"ab", "\U0001f600".encode()]


def pattern_of(d):
    return d.pick([b"(", b"[", b"*", b"\\", b"a{2000}", b"(?<"]) if d.chance(0.06) else d.pick(PATTERNS)


def rewrite_of(d):
    return d.pick(REWRITES[:8] if not d.chance(0.15) else REWRITES)


@op("RegexReplace", count=60)
def regex_replace(d):
    return Case([of(d, d.shape(0, 3), LETTERS), scalar(pattern_of(d)), scalar(rewrite_of(d))], {"replace_global": d.chance(0.7)})


@op("StaticRegexReplace", count=60)
def static_regex_replace(d):
    return Case([of(d, d.shape(0, 3), LETTERS)], {"pattern": pattern_of(d), "rewrite": rewrite_of(d), "replace_global": d.chance(0.7)})


@op("RegexFullMatch", count=40)
def regex_full_match(d):
    return Case([of(d, d.shape(0, 3), LETTERS, longest=3), scalar(pattern_of(d))])


@op("StringToHashBucketStrong", "StringToHashBucket", count=40)
def buckets(d):
    longest = d.pick([9, 17, 33, 66, 130, 400])
    words = [bytes(d.random.integers(0, 256, d.int(0, longest)).astype(np.uint8)) for _ in range(d.int(0, 9))]
    attrs = {"num_buckets": d.pick([1, 2, 10, 1000, 2**31, 2**62 + 1, 2**63 - 1])}
    if d.op.endswith("Strong"):
        attrs["key"] = [d.pick([0, 1, -1, d.int(-2**62, 2**62)]) for _ in range(2 if not d.chance(0.05) else d.pick([0, 1, 3]))]
    return Case([texts(words)], attrs)
