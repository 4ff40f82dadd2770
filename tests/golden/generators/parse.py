# SPDX-License-Identifier: Apache-2.0
"""Cases of the parse package: Examples and SequenceExamples from their bytes, CSV, JSON, bytes and texts as numbers.

Messages are written by hand here, so that lists are packed and not, names come again, and fields are missing or of
another type.
"""

import struct

import numpy as np
import tensorflow as tf

from .draw import Case, op

TYPES = [tf.float32, tf.int64, tf.string]
KEYS = ["a", "b", "c", "\u00fc", "a longer name of a feature"]


def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def texts(values):
    """A tensor of bytes, whatever they are."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def values(d, dtype, count):
    if dtype == tf.string:
        return [d.pick([b"", b"x", b"\xff\x00", b"some text that is longer"]) for _ in range(count)]
    if dtype == tf.float32:
        return [d.pick([0.0, -1.5, 3.25, float("inf"), 1e-30]) for _ in range(count)]
    return [d.pick([0, 1, -1, 127, 128, 2**63 - 1, -2**63]) for _ in range(count)]


def feature(d, dtype, count):
    """The bytes of a Feature, packed or not."""
    listed = values(d, dtype, count)
    if dtype == tf.string:
        return field(1, b"".join(field(1, one) for one in listed))
    packed = d.chance(0.6)
    if dtype == tf.float32:
        raw = [struct.pack("<f", one) for one in listed]
        return field(2, field(1, b"".join(raw)) if packed else b"".join(b"\x0d" + one for one in raw))
    raw = [varint(one % 2**64) for one in listed]
    return field(3, field(1, b"".join(raw)) if packed else b"".join(b"\x08" + one for one in raw))


def entry(key, value):
    return field(1, field(1, key.encode()) + field(2, value))


class Column:
    """What is asked of one key."""

    def __init__(self, d, key):
        self.key, self.dtype = key, d.pick(TYPES)
        self.kind = d.pick(["sparse", "dense", "dense", "ragged"])
        self.shape = d.pick([[], [1], [2], [2, 2], [None], [None, 2], [0]])
        self.required = d.chance(0.4) and None not in self.shape

    def count(self, d):
        if self.kind != "dense":
            return d.int(0, 4)
        fixed = [dim for dim in self.shape if dim is not None]
        return int(np.prod(fixed, dtype=int)) * (d.int(0, 3) if None in self.shape else 1)

    def fallback(self, d):
        shape = [] if None in self.shape else self.shape
        if self.required:
            shape = [0]
        return d.tensor(self.dtype, shape, special=0)


def columns_of(d, kinds=("sparse", "dense", "ragged")):
    keys = [KEYS[i] for i in d.random.permutation(len(KEYS))[: d.int(1, 4)]]
    made = [Column(d, key) for key in keys]
    for column in made:
        if column.kind not in kinds:
            column.kind = "sparse"
    return made


def mostly(d, column):
    """A feature as the column wants it; now and then not."""
    dtype = column.dtype if not d.chance(0.02) else d.pick(TYPES)
    count = column.count(d) + (1 if d.chance(0.02) else 0)
    return b"" if d.chance(0.03) else feature(d, dtype, count)


def example(d, made):
    entries = [
        entry(column.key, mostly(d, column))
        for column in made
        if not d.chance(0.03 if column.kind == "dense" and column.required else 0.25)
    ]
    if d.chance(0.3):
        entries.append(entry("not asked for", feature(d, d.pick(TYPES), 2)))
    if d.chance(0.1) and made:
        entries.append(entry(made[0].key, mostly(d, made[0])))
    message = field(1, b"".join(entries))
    if d.chance(0.1):
        message = field(9, b"unknown") + message
    return d.pick([b"\xff", message[:-1] + b"", b"x"]) if d.chance(0.01) else message


def of(made, kind):
    return [column for column in made if column.kind == kind]


def names_of(d, count):
    return texts([b"n%d" % i for i in range(count)] if d.chance(0.3) else [])


def keys(columns):
    return texts([column.key.encode() for column in columns])


def scalars(columns):
    return [np.array(column.key.encode(), object) for column in columns]


def dtypes(columns):
    return [column.dtype for column in columns]


@op("ParseExample", count=40)
def parse_example(d):
    made = columns_of(d, ("sparse", "dense"))
    sparse, dense = of(made, "sparse"), of(made, "dense")
    batch = texts([example(d, made) for _ in range(d.int(0, 4))])
    return Case(
        [batch, names_of(d, len(batch)), scalars(sparse), scalars(dense), [c.fallback(d) for c in dense]],
        {
            "Nsparse": len(sparse),
            "Ndense": len(dense),
            "sparse_types": dtypes(sparse),
            "Tdense": dtypes(dense),
            "dense_shapes": [c.shape for c in dense],
        },
        disturb=False,
    )


@op("ParseExampleV2", count=55)
def parse_example_v2(d):
    made = columns_of(d)
    sparse, dense, ragged = (of(made, kind) for kind in ("sparse", "dense", "ragged"))
    if d.chance(0.3):
        batch, names = np.array(example(d, made), object), texts([])
    else:
        batch = texts([example(d, made) for _ in range(d.int(0, 4))])
        names = names_of(d, len(batch))
    return Case(
        [batch, names, keys(sparse), keys(dense), keys(ragged), [c.fallback(d) for c in dense]],
        {
            "num_sparse": len(sparse),
            "sparse_types": dtypes(sparse),
            "Tdense": dtypes(dense),
            "dense_shapes": [c.shape for c in dense],
            "ragged_value_types": dtypes(ragged),
            "ragged_split_types": [d.pick([tf.int32, tf.int64]) for _ in ragged],
        },
        disturb=False,
    )


@op("ParseSingleExample", count=35)
def parse_single_example(d):
    made = columns_of(d, ("sparse", "dense"))
    sparse, dense = of(made, "sparse"), of(made, "dense")
    return Case(
        [np.array(example(d, made), object), [c.fallback(d) for c in dense]],
        {
            "num_sparse": len(sparse),
            "sparse_keys": [c.key for c in sparse],
            "dense_keys": [c.key for c in dense],
            "sparse_types": dtypes(sparse),
            "Tdense": dtypes(dense),
            "dense_shapes": [c.shape for c in dense],
        },
        disturb=False,
    )


class Sequence:
    """Columns of the context and of lists of features."""

    def __init__(self, d, ragged):
        kinds = ("sparse", "dense", "ragged") if ragged else ("sparse", "dense")
        self.context, self.lists = columns_of(d, kinds), columns_of(d, kinds)
        for column in self.context + self.lists:
            if None in column.shape or 0 in column.shape:  # TensorFlow refuses the one, and dies of the other
                column.shape = [2]

    def batch(self, d):
        """Not without rows where the context has dense features, for which TensorFlow then finds too few elements."""
        return texts([self.message(d) for _ in range(d.int(1 if of(self.context, "dense") else 0, 3))])

    def message(self, d):
        context = [
            entry(c.key, mostly(d, c))
            for c in self.context
            if not d.chance(0.03 if c.kind == "dense" and c.required else 0.25)
        ]
        lists = []
        for c in self.lists:
            if not d.chance(0.1):
                steps = b"".join(
                    field(
                        1,
                        (
                            b""
                            if d.chance(0.02)
                            else feature(d, c.dtype if not d.chance(0.01) else d.pick(TYPES), c.count(d))
                        ),
                    )
                    for _ in range(d.int(0, 3))
                )
                lists.append(entry(c.key, steps))
        if d.chance(0.1) and lists:
            lists.append(lists[0])
        return field(1, b"".join(context)) + field(2, b"".join(lists))

    def attrs(self, second, d):
        context, lists = self.context, self.lists
        made = {
            "Ncontext_sparse": len(of(context, "sparse")),
            "context_sparse_types": dtypes(of(context, "sparse")),
            "Tcontext_dense": dtypes(of(context, "dense")),
            "context_dense_shapes": [c.shape for c in of(context, "dense")],
            "Nfeature_list_sparse": len(of(lists, "sparse")),
            "Nfeature_list_dense": len(of(lists, "dense")),
            "feature_list_sparse_types": dtypes(of(lists, "sparse")),
            "feature_list_dense_types": dtypes(of(lists, "dense")),
            "feature_list_dense_shapes": [c.shape for c in of(lists, "dense")],
        }
        if second:
            for name, group in (("context", context), ("feature_list", lists)):
                ragged = of(group, "ragged")
                made[f"{name}_ragged_value_types"] = dtypes(ragged)
                made[f"{name}_ragged_split_types"] = [d.pick([tf.int32, tf.int64]) for _ in ragged]
        else:
            made["Ncontext_dense"] = len(of(context, "dense"))
        return made

    def defaults(self, d):
        return [c.fallback(d) for c in of(self.context, "dense")]


@op("ParseSequenceExample", count=30)
def parse_sequence(d):
    s = Sequence(d, ragged=False)
    batch = s.batch(d)
    attrs = s.attrs(False, d)
    attrs.update(
        {
            f"{name}_{kind}_keys": [c.key for c in of(group, kind)]
            for name, group in (("context", s.context), ("feature_list", s.lists))
            for kind in ("sparse", "dense")
        }
    )
    attrs["feature_list_dense_missing_assumed_empty"] = [c.key for c in of(s.lists, "dense") if d.chance(0.7)]
    return Case([batch, names_of(d, len(batch)), s.defaults(d)], attrs, disturb=False)


@op("ParseSequenceExampleV2", count=45)
def parse_sequence_v2(d):
    s = Sequence(d, ragged=not d.chance(0.2))
    single = d.chance(0.3) and not of(s.context + s.lists, "ragged")  # whose row splits TensorFlow never writes
    batch = np.array(s.message(d), object) if single else s.batch(d)
    names = texts([]) if single else names_of(d, len(batch))
    empty = np.array([d.chance(0.7) for _ in of(s.lists, "dense")], bool)
    groups = [keys(of(group, kind)) for group in (s.context, s.lists) for kind in ("sparse", "dense", "ragged")]
    return Case([batch, names, *groups, empty, s.defaults(d)], s.attrs(True, d), disturb=False)


@op("ParseSingleSequenceExample", count=30)
def parse_single_sequence(d):
    s = Sequence(d, ragged=False)
    for group in (s.context, s.lists):  # some of each, so that all numbers of them are said
        for kind in ("sparse", "dense"):
            if not of(group, kind):
                group.append(Column(d, f"only {kind}"))
                group[-1].kind, group[-1].shape = kind, [2]
    empty = texts([c.key.encode() for c in of(s.lists, "dense") if d.chance(0.7)])
    groups = [scalars(of(group, kind)) for group in (s.context, s.lists) for kind in ("sparse", "dense")]
    name = np.array(d.pick([b"", b"name"]), object)
    return Case([np.array(s.message(d), object), empty, *groups, s.defaults(d), name], s.attrs(False, d), disturb=False)


NUMBERS = [
    b"1",
    b"-1",
    b"+3",
    b" 7 ",
    b"0",
    b"2147483647",
    b"2147483648",
    b"-2147483648",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551615",
    b"1.5",
    b"1e3",
    b"1e400",
    b"-1e400",
    b"1e-400",
    b"nan",
    b"NaN",
    b"inf",
    b"-Infinity",
    b"0x1p3",
    b".5",
    b"1.",
    b"3.4028235e38",
    b"1e-45",
    b"0.1",
    b"123456789.123456789",
    b"\t1\n",
]
ODD = [b"", b"x", b"1-", b"--1", b"1_0", b"1e", b".", b"1 2", b"0x10", b"1\x00", b"+-1", b"+ 1"]


@op("StringToNumber", count=40)
def string_to_number(d):
    words = [d.pick(NUMBERS) if not d.chance(0.02) else d.pick(ODD) for _ in range(d.int(0, 4))]
    if d.chance(0.5):
        words = [b"%d" % d.int(0, 100) for _ in words]
    return Case([texts(words)], {"out_type": d.dtype("out_type")})


def csv_field(d, dtype, quotes):
    if d.chance(0.1):
        return d.pick([b"", b"NA", b'""'])
    if dtype == tf.string:
        word = d.pick([b"x", b"two words", b" spaces ", b"\xff\x00", b"a;b"])
        if quotes and d.chance(0.4):
            return b'"' + d.pick([word, b"a,b", b'say ""so""', b"two\r\nlines", b'""']) + b'"'
        return word
    if d.chance(0.02):
        return d.pick(ODD)
    number = b"%d" % d.int(-1000, 1000) if dtype.is_integer else d.pick([one for one in NUMBERS if b"\n" not in one])
    return b'"' + number + b'"' if quotes and d.chance(0.2) else number


@op("DecodeCSV", count=70)
def decode_csv(d):
    columns = [d.pick([tf.float32, tf.float64, tf.int32, tf.int64, tf.string]) for _ in range(d.int(1, 4))]
    quotes, delimiter = not d.chance(0.2), d.pick([b",", b",", b";", b"\t", b" "])
    selected = [i for i in range(len(columns)) if d.chance(0.6)] if d.chance(0.3) else []
    asked = [columns[i] for i in selected] if selected else columns
    lines = []
    for _ in range(d.int(0, 4)):
        line = delimiter.join(csv_field(d, dtype, quotes) for dtype in columns)
        if d.chance(0.06):
            line = d.pick(
                [
                    line + delimiter,
                    line + b"\n",
                    b"\r\n" + line,
                    b"",
                    line[:-1],
                    b'"' + line,
                    line + b'"',
                    line.replace(delimiter, b'"'),
                ]
            )
        lines.append(line)
    defaults = [d.tensor(dtype, d.pick([(), (1,), (1,), (0,)]), special=0) for dtype in asked]
    records = texts(lines) if len(lines) != 1 or d.chance(0.5) else np.array(lines[0], object)
    attrs = {
        "field_delim": delimiter.decode(),
        "use_quote_delim": quotes,
        "na_value": d.pick(["", "NA"]),
        "select_cols": selected,
    }
    if d.chance(0.03):
        attrs["select_cols"] = d.pick([[1, 0], [-1], [0, 0], [0, 7]])[: len(asked)]
    return Case([records, defaults], attrs, disturb=not d.chance(0.5))


@op("DecodeRaw", count=42)
def decode_raw(d):
    dtype = d.dtype("out_type")
    size = dtype.size * d.int(0, 3) + (1 if d.chance(0.03) else 0)
    shape = d.shape(0, 2, large=0)
    words = [
        d.random.integers(0, 2 if dtype == tf.bool else 256, size).astype(np.uint8).tobytes()
        for _ in range(int(np.prod(shape, dtype=int)))
    ]
    if words and d.chance(0.03):
        words[-1] += b"x"
    return Case([texts(words).reshape(shape)], {"out_type": dtype, "little_endian": not d.chance(0.4)}, gradients=False)


@op("DecodePaddedRaw", count=36)
def decode_padded_raw(d):
    dtype = d.dtype("out_type")
    shape = d.shape(0, 2, large=0)
    words = [
        d.random.integers(0, 256, d.int(0, 20)).astype(np.uint8).tobytes()
        for _ in range(int(np.prod(shape, dtype=int)))
    ]
    length = dtype.size * d.int(1, 4) + (d.pick([-1, 1, -100]) if d.chance(0.05) else 0)
    return Case(
        [texts(words).reshape(shape), d.given(np.array(length, np.int32))],
        {"out_type": dtype, "little_endian": not d.chance(0.4)},
        gradients=False,
    )


SERIALIZED = [
    tf.float32,
    tf.float64,
    tf.int32,
    tf.uint8,
    tf.int16,
    tf.int8,
    tf.string,
    tf.complex64,
    tf.int64,
    tf.bool,
    tf.bfloat16,
    tf.uint16,
    tf.complex128,
    tf.float16,
    tf.uint32,
    tf.uint64,
]


@op("SerializeTensor", count=32)
def serialize_tensor(d):
    return Case([d.tensor(d.turn(SERIALIZED), d.shape(0, 3))])


def typed_values(d, dtype, proto, count):
    """A few of the elements, in the field that their type has."""
    fields = {
        tf.float32: "float_val",
        tf.float64: "double_val",
        tf.string: "string_val",
        tf.int64: "int64_val",
        tf.bool: "bool_val",
        tf.uint32: "uint32_val",
        tf.uint64: "uint64_val",
    }
    if dtype in (tf.float16, tf.bfloat16):
        proto.half_val.extend(d.int(0, 0x7000) for _ in range(count))
    elif dtype in (tf.complex64, tf.complex128):
        getattr(proto, "scomplex_val" if dtype == tf.complex64 else "dcomplex_val").extend(
            float(d.int(-9, 9)) for _ in range(2 * count)
        )
    else:
        getattr(proto, fields.get(dtype, "int_val")).extend(d.tensor(dtype, (count,), special=0).tolist())


@op("ParseTensor", count=56)
def parse_tensor(d):
    from tensorflow.core.framework import tensor_pb2
    dtype = d.turn(SERIALIZED)
    shape = d.shape(0, 3, large=0)
    count = int(np.prod(shape, dtype=int))
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    proto.tensor_shape.SetInParent()
    for dim in shape:
        proto.tensor_shape.dim.add(size=dim if not d.chance(0.01) else d.pick([-1, 2**40]))
    if dtype == tf.string or d.chance(0.5):
        typed_values(d, dtype, proto, d.pick([count, count, count + 1, d.int(0, count)]))
    else:
        proto.tensor_content = d.tensor(dtype, shape).tobytes() + (b"x" if d.chance(0.03) else b"")
    message = proto.SerializeToString(deterministic=True)
    if d.chance(0.04):
        message = d.pick([b"", message[:-1], b"\xff\xff"])
    return Case([np.array(message, object)], {"out_type": dtype if not d.chance(0.03) else tf.int32}, gradients=False)


def json_list(d):
    kind = d.pick(["int64List", "floatList", "bytesList", "int64_list", "float_list", "bytes_list"])
    choices = {
        "i": ['1', '"2"', '-3', '9223372036854775807', '"-9223372036854775808"', '1.0', '1e2'],
        "f": ['1.5', '"2"', '"NaN"', '"Infinity"', '"-Infinity"', '3', '1e30', '-0.0'],
        "b": ['"YWI="', '"YQ"', '"_-8="', '""', '"AAECAw=="'],
    }[kind[0]]
    if d.chance(0.03):
        choices = ['"!!"', '1e40', '1.5', 'true', '"x"', '[1]', '{}', '9223372036854775808']
    listed = [d.pick(choices) for _ in range(d.int(0, 3))]
    if d.chance(0.05):
        return f'"{kind}": ' + d.pick(["null", "{}", '{"value": null}', '{"value": []}', "[]", '{"what": 1}'])
    return f'"{kind}": {{"value": [{", ".join(listed)}]}}'


@op("DecodeJSONExample", count=45)
def decode_json(d):
    """One feature in each, since TensorFlow orders several as it likes."""
    def one():
        key = d.pick(["a", "", "\\u00fc", "a \\\"b\\\""])
        made = f'{{"features": {{"feature": {{"{key}": {{{json_list(d) if d.chance(0.9) else ""}}}}}}}}}'
        if d.chance(0.06):
            made = d.pick(
                [
                    "{}",
                    '{"features": {}}',
                    '{"features": null}',
                    '{"foo": 1}',
                    "[]",
                    "",
                    "null",
                    made[:-1],
                    made + " x",
                    '{"features": {"feature": []}}',
                ]
            )
        return made.encode()
    words = texts([one() for _ in range(d.int(0, 3))])
    return Case([words if len(words) != 1 else words.reshape(d.pick([(1,), ()]))])
