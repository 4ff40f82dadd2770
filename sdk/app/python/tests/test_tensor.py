# SPDX-License-Identifier: Apache-2.0
"""Values in and out: whose memory it is, how long it lives, and what becomes of each type. Covers E5."""

import gc
import subprocess
import sys
import weakref

import numpy
import pytest
from conftest import MODELS

import tenon

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")

PLAIN = [
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
]
EXTENSION = ["bfloat16", "float8_e5m2", "float8_e4m3fn"]


def address(array):
    return array.__array_interface__["data"][0]


def echo(dtype, shape=None):
    graph = tenon.Graph()
    with graph:
        x = tenon.placeholder(dtype, shape, name="x")
        y = tenon.ops.Identity(x)
    return tenon.Session(graph).prepare(y, [x])


@pytest.mark.parametrize("name", PLAIN + EXTENSION)
def test_every_type_goes_in_and_out(name):
    dtype = numpy.dtype(name) if name in PLAIN else numpy.dtype(getattr(ml_dtypes, name))
    values = numpy.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    out = echo(name)(values)
    assert out.dtype == dtype and out.shape == (2, 3)
    numpy.testing.assert_array_equal(
        out.astype("float64" if "complex" not in name else name),
        values.astype("float64" if "complex" not in name else name),
    )
    assert tenon.DType(dtype) == name and str(tenon.DType(name)) == name


def test_a_tensor_reads_the_arrays_own_memory():
    array = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    tensor = tenon.Tensor(array)
    assert tensor.address == address(array)
    assert address(tensor.numpy()) == address(array)
    assert tenon.Tensor(array, copy=True).address != address(array)


def test_a_read_only_array_is_shared_too_and_strided_ones_are_copied():
    array = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    array.flags.writeable = False
    assert tenon.Tensor(array).address == address(array)
    turned = array.T
    tensor = tenon.Tensor(turned)
    assert tensor.address != address(array)
    numpy.testing.assert_array_equal(tensor.numpy(), turned)
    numpy.testing.assert_array_equal(echo("float32")(array[:, ::-2]), array[:, ::-2])
    other_order = array.astype(">f4")
    numpy.testing.assert_array_equal(echo("float32")(other_order), array)


def test_what_is_fetched_is_read_only_and_lives_as_long_as_the_array():
    array = numpy.arange(1 << 16, dtype=numpy.float32)
    result = echo("float32")(array)
    assert not result.flags.writeable and isinstance(result.base, tenon.Tensor)
    assert result.base.address == address(result)
    part = result[10:20]
    del result
    gc.collect()
    numpy.testing.assert_array_equal(part, numpy.arange(10, 20))
    with pytest.raises(ValueError):
        part[0] = 1


def test_a_tensor_keeps_the_array_and_lets_it_go():
    class Watched(numpy.ndarray):
        pass

    array = numpy.arange(4, dtype=numpy.float32).view(Watched)
    gone = weakref.ref(array)
    tensor = tenon.Tensor(array)
    del array
    gc.collect()
    numpy.testing.assert_array_equal(tensor.numpy(), [0, 1, 2, 3])
    del tensor
    gc.collect()
    assert gone() is None


class OldExporter:
    """An array that knows the old protocol alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def test_dlpack_in_without_a_copy():
    array = numpy.arange(6, dtype=numpy.int64)
    assert tenon.from_dlpack(array).address == address(array)
    assert tenon.from_dlpack(OldExporter(array)).address == address(array)
    assert tenon.from_dlpack(array.__dlpack__()).address == address(array)
    assert tenon.Tensor(OldExporter(array)).address == address(array)
    numpy.testing.assert_array_equal(echo("int64")(OldExporter(array)), array)


def test_dlpack_out_without_a_copy():
    tensor = tenon.Tensor(numpy.arange(6, dtype=numpy.float64))
    assert tensor.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" not in repr(tensor.__dlpack__()) and "dltensor" in repr(tensor.__dlpack__())
    shared = numpy.from_dlpack(tensor)
    assert address(shared) == tensor.address and not shared.flags.writeable
    assert tenon.from_dlpack(tensor.__dlpack__()).address == tensor.address
    assert tenon.from_dlpack(tensor.__dlpack__(copy=True)).address != tensor.address
    del tensor
    gc.collect()
    numpy.testing.assert_array_equal(shared, numpy.arange(6))


def test_a_capsule_is_taken_once():
    capsule = numpy.arange(3.0).__dlpack__()
    tenon.from_dlpack(capsule)
    with pytest.raises(tenon.InvalidArgumentError, match="has taken already"):
        tenon.from_dlpack(capsule)


def test_arrays_come_back_from_the_engines_threads():
    """A tensor whose last owner is a thread without the interpreter's lock lets its array go all the same."""

    class Watched(numpy.ndarray):
        pass

    model = tenon.load(MODELS / "keras_dense")
    gone = []
    for _ in range(20):
        array = numpy.ones((1, 3), numpy.float32).view(Watched)
        gone.append(weakref.ref(array))
        model(array)
        del array
    tenon.Tensor(numpy.ones(2))
    gc.collect()
    assert [reference() for reference in gone] == [None] * 20


def test_strings_of_every_kind():
    want = [b"a", "über".encode(), b""]
    given = [
        ["a", "über", ""],
        numpy.array(["a", "über", ""]),
        numpy.array([b"a", "über".encode(), b""]),
        numpy.array(["a", "über".encode(), b""], dtype=object),
    ]
    if hasattr(numpy, "dtypes") and hasattr(numpy.dtypes, "StringDType"):
        given.append(numpy.array(["a", "über", ""], dtype=numpy.dtypes.StringDType()))
    for value in given:
        out = echo("string")(value)
        assert out.dtype == object and out.tolist() == want
    assert echo("string")("text").item() == b"text"
    assert echo("string")(b"zero \0 inside").item() == b"zero \0 inside"
    assert echo("string")([b"ends with zero\0", "é"]).tolist() == [b"ends with zero\0", "é".encode()]
    for mixed in (numpy.array(["a", 3], dtype=object), ["a", 3]):
        with pytest.raises(tenon.InvalidArgumentError, match="element 1 is 3"):
            echo("string")(mixed)


def test_pythons_numbers_become_what_the_feed_is():
    assert echo("float64")(3).dtype == numpy.float64
    assert echo("uint8")([1, 2, 255]).tolist() == [1, 2, 255]
    assert echo("bfloat16")([1.5, 2]).dtype == ml_dtypes.bfloat16
    assert echo("float32")([]).shape == (0,)
    assert echo("int32")([]).shape == (0,)
    assert echo("string")([]).shape == (0,)
    assert echo("bool")(True).item() is True
    for value, dtype in (
        (1.5, "int32"),
        ([256], "uint8"),
        ("a", "float32"),
        (1, "bool"),
        (2**31, "int32"),
        (None, "float32"),
        (object(), "float32"),
        ([1.5], "string"),
        (1, "string"),
        (numpy.ones(2), "string"),
        ([[1], [1, 2]], "float32"),
    ):
        with pytest.raises(tenon.InvalidArgumentError, match="feed 'x'"):
            echo(dtype)(value)


def test_arrays_of_the_same_kind_are_cast_and_others_refused():
    assert echo("float32")(numpy.array([1.5])).dtype == numpy.float32
    assert echo("int32")(numpy.array([7])).tolist() == [7]
    with pytest.raises(tenon.InvalidArgumentError, match="float64"):
        echo("int32")(numpy.array([1.0]))
    with pytest.raises(tenon.InvalidArgumentError, match="beyond"):
        echo("int32")(numpy.array([2**40]))


def test_types_by_themselves():
    for value, want in (
        (1, "int32"),
        (2**40, "int64"),
        (1.0, "float32"),
        (True, "bool"),
        (1j, "complex64"),
        ([1, 2.5], "float32"),
        (numpy.float64(1), "float64"),
        (numpy.zeros(2), "float64"),
        ([numpy.float64(1)], "float64"),
        ("a", "string"),
    ):
        assert tenon.Tensor(value).dtype == want, value
    with pytest.raises(ValueError, match="did you mean|there are"):
        tenon.DType("float33")
    assert tenon.DType("float") == tenon.float32 and tenon.DType(numpy.int8) == "int8" and tenon.DType("float32") != 3


def test_tensors_say_what_they_are():
    tensor = tenon.Tensor([[1, 2]])
    assert repr(tensor) == "<tenon.Tensor int32[1,2]: [[1 2]]>"
    assert (tensor.shape, tensor.ndim, tensor.size, tensor.nbytes, len(tensor)) == ((1, 2), 2, 2, 8, 1)
    assert float(tenon.Tensor(2.5)) == 2.5 and int(tenon.Tensor(3)) == 3
    assert repr(tenon.Tensor(numpy.zeros((100, 3)))) == "<tenon.Tensor float64[100,3]>"


def test_without_ml_dtypes_the_error_says_what_to_install():
    code = """
import sys
sys.modules["ml_dtypes"] = None
import tenon
with tenon.Graph() as graph:
    y = tenon.ops.Cast(tenon.placeholder("float32", [], name="x"), DstT="bfloat16")
try:
    tenon.Session(graph).run(y, {"x": 1.0})
except tenon.Error as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install ml_dtypes" in out
