// SPDX-License-Identifier: Apache-2.0
// SerializeSparse, SerializeManySparse, DeserializeSparse, DeserializeManySparse: a sparse tensor as three texts
// (TensorProtos) or three variants: indices, values, dense shape. Of many sparse tensors one is made that has their
// number as its first dims.
#include <algorithm>

#include "packed.h"
#include "places.h"
#include "tenon/extras/kernel/tensor_proto.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using sparse::CheckSparse;
using sparse::Packed;

// ---- Packed ----

// The pieces of a tensor's message. Texts stand in its tensor_content, as TensorFlow writes them here: all sizes, and
// then the bytes.
template <class Put>
void ForEachPiece(const tenon_tensor_view& tensor, const Put& put) {
  if (tensor.dtype != TENON_DT_STRING) return tensor_proto::ForEachPiece(tensor, put);
  put(std::string_view(tensor_proto::HeadOf(TENON_DT_STRING, DimsOf(tensor))));
  const int64_t count = Count(tensor);
  if (count == 0) return;
  uint64_t bytes = 0;
  std::string size;
  const auto for_each = [&](const auto& each) {
    for (int64_t i = 0; i < count; ++i) {
      const std::string_view text = StringAt(tensor, i);
      size.clear();
      PutVarint(size, text.size());
      each(text);
    }
  };
  for_each([&](std::string_view text) { bytes += size.size() + text.size(); });
  put(std::string_view(tensor_proto::MemberHead(tensor_proto::kContent, bytes)));
  for_each([&](std::string_view) { put(std::string_view(size)); });
  for_each([&](std::string_view text) { put(text); });
}

// Texts of tensors: how many bytes they have, and then the texts themselves.
class Messages {
 public:
  void Count(const tenon_tensor_view& tensor) {
    ForEachPiece(tensor, [this](std::string_view piece) { bytes_ += piece.size(); });
  }
  void Allocate(const RunContext& c, Dims dims) {
    c.AllocOutput(0, dims, bytes_);
    base_ = c.output<char>(0);
    end_ = static_cast<uint64_t>(sdk::Count(dims)) * sizeof(tenon_string_cell);
  }
  void Write(const tenon_tensor_view& tensor) {
    const uint64_t begin = end_;
    ForEachPiece(tensor, [this](std::string_view piece) {
      if (!piece.empty()) std::memcpy(base_ + end_, piece.data(), piece.size());
      end_ += piece.size();
    });
    reinterpret_cast<tenon_string_cell*>(base_)[cell_++] = {begin, end_ - begin};
  }

 private:
  uint64_t bytes_ = 0, end_ = 0, cell_ = 0;
  char* base_ = nullptr;
};

struct Serialize {
  explicit Serialize(CreateContext& c) : as_texts(c.Type("out_type") == TENON_DT_STRING) {}
  void Run(RunContext c) const {
    CheckSparse(DimsOf(c.input_view(0)), DimsOf(c.input_view(1)), DimsOf(c.input_view(2)));
    const int64_t dims[] = {3};
    if (as_texts) {
      Messages messages;
      for (int32_t i = 0; i < 3; ++i) messages.Count(c.input_view(i));
      messages.Allocate(c, dims);
      for (int32_t i = 0; i < 3; ++i) messages.Write(c.input_view(i));
      return;
    }
    c.AllocOutput(0, dims);
    for (int32_t i = 0; i < 3; ++i) {
      Packed part;
      part.push_back(KeptTensor::OfInput(c, i));
      c.output<tenon_variant*>(0)[i] = sparse::Hold(c, sparse::kTensorType, part);
    }
  }
  bool as_texts;
};

struct SerializeMany {
  explicit SerializeMany(CreateContext& c) : as_texts(c.Type("out_type") == TENON_DT_STRING) {}
  void Run(RunContext c) const {
    CheckSparse(DimsOf(c.input_view(0)), DimsOf(c.input_view(1)), DimsOf(c.input_view(2)));
    const int64_t rank = DimsOf(c.input_view(2))[0];
    if (rank < 2) Fail(TENON_INVALID_ARGUMENT, "Rank of input SparseTensor should be > 1, but saw rank: ", rank);
    const int64_t rows = *c.input<int64_t>(2);
    if (rows < 0) Fail(TENON_INVALID_ARGUMENT, "the dense shape begins with ", rows);
    sparse::CheckPlaces(c, c.input_view(0), {c.input<int64_t>(2), static_cast<size_t>(rank)}, sparse::Order::kSorted);
    const int64_t dims[] = {rows, 3};
    if (!as_texts) return GiveVariants(c, rank, dims);
    NewTensor(c, TENON_DT_STRING, dims);  // whether there is memory for as many, before the rows are gone through
    Messages messages;
    sparse::ForEachRow(c, rank, rows, [&messages](const Packed& row) {
      for (const KeptTensor& part : row) messages.Count(part.view());
    });
    messages.Allocate(c, dims);
    sparse::ForEachRow(c, rank, rows, [&messages](const Packed& row) {
      for (const KeptTensor& part : row) messages.Write(part.view());
    });
  }

 private:
  static void GiveVariants(const RunContext& c, int64_t rank, Dims dims) {
    c.AllocOutput(0, dims);
    auto* cell = c.output<tenon_variant*>(0);
    sparse::ForEachRow(c, rank, dims[0], [&](Packed& row) {
      for (KeptTensor& part : row) {
        Packed one;
        one.push_back(std::move(part));
        *cell++ = sparse::Hold(c, sparse::kTensorType, one);
      }
    });
  }
  bool as_texts;
};

// ---- Unpacked ----

struct Deserialize {
  explicit Deserialize(CreateContext& c) : dtype(c.Type("dtype")) {}
  void Run(RunContext c) const {
    const Dims dims = DimsOf(c.input_view(0));
    if (dims.empty()) Fail(TENON_INVALID_ARGUMENT, "Serialized sparse should have non-zero rank");
    if (dims.back() != 3)
      Fail(TENON_INVALID_ARGUMENT, "Serialized sparse should have 3 as the last dimension; its shape is ", dims);
    const Dims outer = dims.first(dims.size() - 1);
    const int64_t count = Count(outer);
    if (count == 0)
      Fail(TENON_INVALID_ARGUMENT,
           "Serialized sparse should have at least 1 serialized tensor, but has a zero dimension: ", dims);
    if (outer.empty()) {
      const Packed parts = Take(c, 0);
      for (int32_t i = 0; i < 3; ++i) {
        const tenon_tensor_view view = parts[static_cast<size_t>(i)].view();
        Check(c.services().set_output(c.frame(), i, &view));
      }
      return;
    }
    Join(c, outer, count);
  }

 private:
  KeptTensor Part(const RunContext& c, int64_t place, uint32_t expected) const {
    const tenon_tensor_view& input = c.input_view(0);
    if (input.dtype == TENON_DT_STRING)
      return tensor_proto::Read(StringAt(input, place), expected, [&c](uint32_t type, Dims dims, uint64_t extra) {
        return NewTensor(c, type, dims, extra);
      });
    const std::vector<tenon_tensor_view> held = sparse::Held(c, input, place, sparse::kTensorType);
    if (held.size() != 1) Fail(TENON_INVALID_ARGUMENT, "element ", place, " of serialized_sparse holds no tensor");
    if (held[0].dtype != expected)
      Fail(TENON_INVALID_ARGUMENT, "element ", place, " of serialized_sparse is of ", TypeName(held[0].dtype), "; ",
           TypeName(expected), " is asked for");
    tenon_plugin_host->buffer_retain(held[0].buffer);
    return KeptTensor(held[0]);
  }
  // The sparse tensor at `place` among the others, whose parts fit each other.
  Packed Take(const RunContext& c, int64_t place) const {
    Packed parts;
    parts.push_back(Part(c, 3 * place, TENON_DT_INT64));
    parts.push_back(Part(c, 3 * place + 1, dtype));
    parts.push_back(Part(c, 3 * place + 2, TENON_DT_INT64));
    const tenon_tensor_view indices = parts[0].view(), values = parts[1].view(), shape = parts[2].view();
    if (indices.dl.ndim != 2)
      Fail(TENON_INVALID_ARGUMENT, "Expected serialized_sparse[", place,
           ", 0] to represent an index matrix but received shape ", DimsOf(indices));
    if (values.dl.ndim != 1)
      Fail(TENON_INVALID_ARGUMENT, "Expected serialized_sparse[", place,
           ", 1] to represent a values vector but received shape ", DimsOf(values));
    if (shape.dl.ndim != 1)
      Fail(TENON_INVALID_ARGUMENT, "Expected serialized_sparse[", place,
           ", 2] to represent a shape vector but received shape ", DimsOf(shape));
    CheckSparse(DimsOf(indices), DimsOf(values), DimsOf(shape));
    return parts;
  }

  void Join(const RunContext& c, Dims outer, int64_t count) const {
    std::vector<Packed> all;
    CancelPoll poll(c);
    for (int64_t i = 0; i < count; ++i, poll(1000)) all.push_back(Take(c, i));
    sparse::GiveStacked(c, outer, dtype, all);
  }
  uint32_t dtype;
};

constexpr Traits kGivesSerialized = {.dynamic_outputs = TENON_DYNAMIC_ALL},
                 kKeepsSerialized = {.dynamic_outputs = TENON_DYNAMIC_ALL, .retained_inputs = 7};

void SparseInputs(ShapeContext& c) {
  const Shape indices = c.WithRank(0, 2), values = c.WithRank(1, 1), shape = c.WithRank(2, 1);
  c.Merge(indices[0], values[0], "the numbers of indices and of values");
  c.Merge(indices[1], shape[0], "the columns of the indices and the numbers of the dense shape");
}
void SerializeShape(ShapeContext& c) {
  SparseInputs(c);
  c.SetOutput(0, {3});
}
void SerializeManyShape(ShapeContext& c) {
  SparseInputs(c);
  const Shape shape = c.InputAsShape(2);
  c.SetOutput(0, {shape.rank() > 0 ? shape[0] : kUnknown, 3});
}
void DeserializeShape(ShapeContext& c) {
  const Shape serialized = c.WithRankAtLeast(0, 1);
  c.Merge(serialized[-1], 3, "the last dim of serialized_sparse and the parts of a sparse tensor");
  c.SetOutput(0, Shape::OfRank(2));
  c.SetOutput(1, Shape::OfRank(1));
  c.SetOutput(2, Shape::OfRank(1));
}
void DeserializeManyShape(ShapeContext& c) {
  c.WithRank(0, 2);
  DeserializeShape(c);
}

}  // namespace

TENON_KERNEL(kSerializeSparseKernel) = Registration<Serialize>("SerializeSparse", kKeepsSerialized);
TENON_KERNEL(kSerializeManySparseKernel) = Registration<SerializeMany>("SerializeManySparse", kGivesSerialized);
TENON_KERNEL(kDeserializeSparseKernel) = Registration<Deserialize>("DeserializeSparse", kGivesSerialized);
TENON_KERNEL(kDeserializeManySparseKernel) = Registration<Deserialize>("DeserializeManySparse", kGivesSerialized);

TENON_OP(kSerializeSparse) = DefineOp({
    .name = "SerializeSparse",
    .inputs = "sparse_indices: int64, sparse_values: T, sparse_shape: int64",
    .outputs = "serialized_sparse: out_type",
    .attrs = "T: type; out_type: {string, variant} = string",
    .constraints = "rank(sparse_indices) == 2; rank(sparse_values) == 1; rank(sparse_shape) == 1",
    .doc = "A sparse tensor as three texts, or three variants: indices, values, dense shape.",
    .shape = ShapeFunction<SerializeShape>,
});

TENON_OP(kSerializeManySparse) = DefineOp({
    .name = "SerializeManySparse",
    .inputs = "sparse_indices: int64, sparse_values: T, sparse_shape: int64",
    .outputs = "serialized_sparse: out_type",
    .attrs = "T: type; out_type: {string, variant} = string",
    .constraints = "rank(sparse_indices) == 2; rank(sparse_values) == 1; rank(sparse_shape) == 1",
    .doc = "Each row of a sparse tensor, whose indices are in order, as three texts, or three variants: indices, "
           "values, dense shape.",
    .shape = ShapeFunction<SerializeManyShape>,
});

TENON_OP(kDeserializeSparse) = DefineOp({
    .name = "DeserializeSparse",
    .inputs = "serialized_sparse: Tserialized",
    .outputs = "sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    .attrs = "dtype: type; Tserialized: {string, variant} = string",
    .constraints = "rank(serialized_sparse) >= 1; dim(serialized_sparse, -1) == 3",
    .doc = "The sparse tensor whose first dims are serialized_sparse's but its last, and whose others have room for "
           "each of those that stand there.",
    .shape = ShapeFunction<DeserializeShape>,
});

TENON_OP(kDeserializeManySparse) = DefineOp({
    .name = "DeserializeManySparse",
    .inputs = "serialized_sparse: string",
    .outputs = "sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    .attrs = "dtype: type",
    .constraints = "rank(serialized_sparse) == 2; dim(serialized_sparse, 1) == 3",
    .doc = "The sparse tensor whose rows are those that stand in serialized_sparse's rows.",
    .shape = ShapeFunction<DeserializeManyShape>,
});

}  // namespace tenon::ops
