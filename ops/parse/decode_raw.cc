// SPDX-License-Identifier: Apache-2.0
// DecodeRaw, DecodePaddedRaw: the bytes of strings as elements.
#include <algorithm>
#include <cstring>

#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

bool IsComplex(uint32_t dtype) { return dtype == TENON_DT_COMPLEX64 || dtype == TENON_DT_COMPLEX128; }

// Copies the strings into the output, `bytes` for each, shorter ones with zeros behind them; part: bytes of a number
// whose order is turned, 1: none is.
void CopyRows(const RunContext& c, int64_t bytes, uint64_t part) {
  const tenon_tensor_view& strings = c.input_view(0);
  char* const output = c.output<char>(0);
  c.ParallelFor(Count(strings), 20 + static_cast<double>(bytes) * (part > 1 ? 1 : 0.1),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const std::string_view text = StringAt(strings, i);
                    char* const to = output + i * bytes;
                    const size_t taken = std::min(text.size(), static_cast<size_t>(bytes));
                    if (taken > 0) std::memcpy(to, text.data(), taken);
                    std::memset(to + taken, 0, static_cast<size_t>(bytes) - taken);
                    for (int64_t at = 0; part > 1 && at < bytes; at += static_cast<int64_t>(part))
                      std::reverse(to + at, to + at + part);
                  }
                });
}

struct Decode {
  explicit Decode(CreateContext& c) : little_endian(c.Bool("little_endian")), dtype(c.Type("out_type")) {}

 protected:
  // The output's shape: the strings' and `elements`.
  static void Allocate(const RunContext& c, int64_t elements) {
    const Dims dims = DimsOf(c.input_view(0));
    std::vector<int64_t> shape(dims.begin(), dims.end());
    shape.push_back(elements);
    c.AllocOutput(0, shape);
  }
  uint64_t Part() const { return little_endian ? 1 : ElementSize(dtype) / (IsComplex(dtype) ? 2 : 1); }
  bool little_endian;
  uint32_t dtype;
};

struct DecodeRaw : Decode {
  using Decode::Decode;
  void Run(RunContext c) const {
    const tenon_tensor_view& strings = c.input_view(0);
    const int64_t count = Count(strings);
    const auto size = static_cast<int64_t>(ElementSize(dtype));
    const auto bytes = count == 0 ? 0 : static_cast<int64_t>(StringAt(strings, 0).size());
    for (int64_t i = 1; i < count; ++i) {
      if (static_cast<int64_t>(StringAt(strings, i).size()) != bytes)
        Fail(TENON_INVALID_ARGUMENT, "string ", i, " has ", StringAt(strings, i).size(), " bytes, the first one ",
             bytes, "; DecodeRaw takes strings of one length");
    }
    if (bytes % size != 0)
      Fail(TENON_INVALID_ARGUMENT, "strings of ", bytes, " bytes are no whole number of elements of ", TypeName(dtype),
           ", which has ", size);
    Allocate(c, bytes / size);
    CopyRows(c, bytes, Part());
  }
};

struct DecodePaddedRaw : Decode {
  using Decode::Decode;
  void Run(RunContext c) const {
    const int64_t bytes = *c.input<int32_t>(1), size = static_cast<int64_t>(ElementSize(dtype));
    if (bytes <= 0 || bytes % size != 0)
      Fail(TENON_INVALID_ARGUMENT, "fixed_length is ", bytes, "; it must be positive and a multiple of the ", size,
           " bytes of ", TypeName(dtype));
    Allocate(c, bytes / size);
    CopyRows(c, bytes, Part());
  }
};

constexpr Traits kDecodes = {.dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kDecodeRawKernel) = Registration<DecodeRaw>("DecodeRaw", kDecodes);
TENON_KERNEL(kDecodePaddedRawKernel) = Registration<DecodePaddedRaw>("DecodePaddedRaw", kDecodes);

namespace {

void SetElements(ShapeContext& c, int64_t elements) {
  const Shape in = c.Input(0);
  if (!in.known_rank()) return;
  std::vector<int64_t> dims = in.dims();
  dims.push_back(elements);
  c.SetOutput(0, Shape(dims));
}

}  // namespace

static void DecodeRawShape(ShapeContext& c) { SetElements(c, -1); }

TENON_OP(kDecodeRaw) = DefineOp({
    .name = "DecodeRaw",
    .inputs = "bytes: string",
    .outputs = "output: out_type",
    .attrs = "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, complex128, bool, "
             "bfloat16}; little_endian: bool = true",
    .doc = "The bytes of strings of one length as elements, in a dim of their own.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DecodeRawShape>,
});

static void DecodePaddedRawShape(ShapeContext& c) {
  c.WithRank(1, 0);
  const auto bytes = c.Integer(1);
  const auto size = static_cast<int64_t>(ElementSize(c.Type("out_type")));
  if (bytes.has_value() && size > 0 && (*bytes <= 0 || *bytes % size != 0))
    return c.Invalid("fixed_length is ", *bytes, "; it must be positive and a multiple of ", size);
  SetElements(c, bytes.has_value() && size > 0 ? *bytes / size : -1);
}

TENON_OP(kDecodePaddedRaw) = DefineOp({
    .name = "DecodePaddedRaw",
    .inputs = "input_bytes: string, fixed_length: int32",
    .outputs = "output: out_type",
    .attrs = "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}; little_endian: bool "
             "= true",
    .constraints = "rank(fixed_length) == 0",
    .doc = "The first fixed_length bytes of each string as elements, with zeros behind a shorter one.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DecodePaddedRawShape>,
});

}  // namespace tenon::ops
