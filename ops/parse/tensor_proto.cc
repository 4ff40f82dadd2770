// SPDX-License-Identifier: Apache-2.0
// ParseTensor, SerializeTensor: tensors as TensorFlow's message TensorProto.
#include <algorithm>

#include "tenon/extras/kernel/tensor_proto.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct ParseTensor {
  explicit ParseTensor(CreateContext& c) : dtype(c.Type("out_type")) {
    if (tensor_proto::FieldOf(dtype) == 0)
      c.Fail(TENON_UNIMPLEMENTED, "tensors of ", TypeName(dtype), " cannot be parsed");
  }
  void Run(RunContext c) const {
    const KeptTensor tensor = tensor_proto::Read(
        StringAt(c.input_view(0), 0), dtype,
        [&c](uint32_t type, Dims dims, uint64_t extra_bytes) { return NewTensor(c, type, dims, extra_bytes); });
    const tenon_tensor_view view = tensor.view();
    Check(c.services().set_output(c.frame(), 0, &view));
  }
  uint32_t dtype;
};

struct SerializeTensor {
  explicit SerializeTensor(CreateContext& c) : dtype(c.Type("T")) {
    if (tensor_proto::FieldOf(dtype) == 0)
      c.Fail(TENON_UNIMPLEMENTED, "tensors of ", TypeName(dtype), " cannot be serialized");
  }
  void Run(RunContext c) const {
    const tenon_tensor_view& tensor = c.input_view(0);
    const uint64_t size = tensor_proto::SizeOf(tensor);
    c.AllocOutput(0, {}, size);
    char* const base = c.output<char>(0);
    *reinterpret_cast<tenon_string_cell*>(base) = {sizeof(tenon_string_cell), size};
    char* to = base + sizeof(tenon_string_cell);
    tensor_proto::ForEachPiece(tensor,
                               [&to](std::string_view piece) { to = std::copy(piece.begin(), piece.end(), to); });
  }
  uint32_t dtype;
};

constexpr Traits kGives = {.dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kParseTensorKernel) = Registration<ParseTensor>("ParseTensor", kGives);
TENON_KERNEL(kSerializeTensorKernel) = Registration<SerializeTensor>("SerializeTensor", kGives);

static void ParseTensorShape(ShapeContext& c) { c.WithRank(0, 0); }

TENON_OP(kParseTensor) = DefineOp({
    .name = "ParseTensor",
    .inputs = "serialized: string",
    .outputs = "output: out_type",
    .attrs = "out_type: type",
    .constraints = "rank(serialized) == 0",
    .doc = "The tensor of a serialized TensorProto, whose type is said beforehand.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ParseTensorShape>,
});

TENON_OP(kSerializeTensor) = DefineOp({
    .name = "SerializeTensor",
    .inputs = "tensor: T",
    .outputs = "serialized: string",
    .attrs = "T: type",
    .doc = "The tensor as a serialized TensorProto.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

}  // namespace tenon::ops
