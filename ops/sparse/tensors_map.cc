// SPDX-License-Identifier: Apache-2.0
// AddSparseToTensorsMap, AddManySparseToTensorsMap, TakeManySparseFromTensorsMap: sparse tensors that wait under a
// number, which goes through queues in their place.
#include <map>
#include <memory>
#include <mutex>

#include "packed.h"
#include "places.h"
#include "tenon/sdk/kernel/resource.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using sparse::Packed;

constexpr tenon_span kMapType = TENON_SPAN("tenon.SparseTensorsMap/1");

class TensorsMap {
 public:
  int64_t Add(Packed tensor) {
    const std::lock_guard lock(mutex_);
    tensors_.emplace(next_, std::move(tensor));
    return next_++;
  }
  // All of them, or INVALID_ARGUMENT, thrown, and none.
  std::vector<Packed> Take(std::span<const int64_t> numbers) {
    const std::lock_guard lock(mutex_);
    std::map<int64_t, size_t> wanted;
    for (size_t i = 0; i < numbers.size(); ++i)
      if (!tensors_.contains(numbers[i]) || !wanted.emplace(numbers[i], i).second)
        Fail(TENON_INVALID_ARGUMENT, "Unable to find SparseTensor: ", numbers[i],
             " in map: it was never added, or is taken already");
    std::vector<Packed> taken;
    taken.reserve(numbers.size());
    for (const int64_t number : numbers) taken.push_back(std::move(tensors_.extract(number).mapped()));
    return taken;
  }
  // What was taken, and could not be used.
  void PutBack(std::span<const int64_t> numbers, std::vector<Packed> taken) {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < numbers.size(); ++i) tensors_.emplace(numbers[i], std::move(taken[i]));
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, Packed> tensors_;
  int64_t next_ = 0;
};

// The map of the node's container and shared_name; without one of its own name.
struct OfMap {
  explicit OfMap(CreateContext& c) {
    std::string name(c.String("shared_name"));
    if (name.empty()) name = c.name();
    const std::string container(c.String("container"));
    if (!c.ok()) return;
    const tenon_create_args& args = c.args();
    c.Check(args.services->resource_handle(args.context, ToSpan(container), ToSpan(name), kMapType, 0, &handle));
  }
  TensorsMap& Map(const RunContext& c) const {
    return ObjectOf<TensorsMap>(c, handle, kMapType, [] { return std::make_unique<TensorsMap>(); });
  }
  tenon_resource* handle = nullptr;
};

void CheckInputs(const RunContext& c) {
  sparse::CheckSparse(DimsOf(c.input_view(0)), DimsOf(c.input_view(1)), DimsOf(c.input_view(2)));
}

struct AddOne : OfMap {
  explicit AddOne(CreateContext& c) : OfMap(c) {}
  void Run(RunContext c) const {
    CheckInputs(c);
    Packed tensor;
    for (int32_t i = 0; i < 3; ++i) tensor.push_back(KeptTensor::OfInput(c, i));
    *c.output<int64_t>(0) = Map(c).Add(std::move(tensor));
  }
};

struct AddMany : OfMap {
  explicit AddMany(CreateContext& c) : OfMap(c) {}
  void Run(RunContext c) const {
    CheckInputs(c);
    const Dims shape(c.input<int64_t>(2), static_cast<size_t>(Count(c.input_view(2))));
    if (shape.size() < 2)
      Fail(TENON_INVALID_ARGUMENT, "Rank of input SparseTensor should be > 1, but saw rank: ", shape.size());
    if (shape[0] < 0) Fail(TENON_INVALID_ARGUMENT, "the dense shape begins with ", shape[0]);
    sparse::CheckPlaces(c, c.input_view(0), shape, sparse::Order::kSorted);
    c.AllocOutput(0, shape.first(1));
    std::vector<Packed> rows;
    sparse::ForEachRow(c, static_cast<int64_t>(shape.size()), shape[0],
                       [&](Packed& row) { rows.push_back(std::move(row)); });
    // Those that have something first, as TensorFlow counts them.
    TensorsMap& map = Map(c);
    std::vector<bool> empty(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) empty[i] = Count(rows[i][1].view()) == 0;
    for (const bool turn : {false, true})
      for (size_t i = 0; i < rows.size(); ++i)
        if (empty[i] == turn) c.output<int64_t>(0)[i] = map.Add(std::move(rows[i]));
  }
};

struct TakeMany : OfMap {
  explicit TakeMany(CreateContext& c) : OfMap(c), dtype(c.Type("dtype")) {}
  void Run(RunContext c) const {
    const Dims dims = DimsOf(c.input_view(0));
    if (dims[0] == 0)
      Fail(TENON_INVALID_ARGUMENT, "Must have at least 1 serialized SparseTensor, but sparse_handles is empty");
    const std::span<const int64_t> numbers(c.input<int64_t>(0), static_cast<size_t>(dims[0]));
    TensorsMap& map = Map(c);
    std::vector<Packed> all = map.Take(numbers);
    try {
      for (size_t i = 0; i < all.size(); ++i)
        if (const uint32_t found = all[i][1].view().dtype; found != dtype)
          Fail(TENON_INVALID_ARGUMENT, "Requested SparseTensor of type ", TypeName(dtype), " but SparseTensor[", i,
               "].values.dtype() == ", TypeName(found));
      sparse::GiveStacked(c, dims, dtype, all);
    } catch (...) {
      map.PutBack(numbers, std::move(all));
      throw;
    }
  }
  uint32_t dtype;
};

void AddOneShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) c.WithRank(i, i == 0 ? 2 : 1);
  c.SetOutput(0, Shape::Scalar());
}
void AddManyShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) c.WithRank(i, i == 0 ? 2 : 1);
  c.SetOutput(0, {kUnknown});
}
void TakeManyShape(ShapeContext& c) {
  c.WithRank(0, 1);
  c.SetOutput(0, Shape::OfRank(2));
  c.SetOutput(1, Shape::OfRank(1));
  c.SetOutput(2, Shape::OfRank(1));
}

constexpr std::string_view kInputs = "sparse_indices: int64, sparse_values: T, sparse_shape: int64";
constexpr std::string_view kRanks = "rank(sparse_indices) == 2; rank(sparse_values) == 1; rank(sparse_shape) == 1";

}  // namespace

TENON_KERNEL(kAddSparseToTensorsMapKernel) = Registration<AddOne>("AddSparseToTensorsMap",
                                                                  {.flags = TENON_KERNEL_STATEFUL,
                                                                   .retained_inputs = 7});
TENON_KERNEL(kAddManySparseToTensorsMapKernel) = Registration<AddMany>("AddManySparseToTensorsMap",
                                                                       {.flags = TENON_KERNEL_STATEFUL,
                                                                        .dynamic_outputs = 1});
TENON_KERNEL(kTakeManySparseFromTensorsMapKernel) = Registration<TakeMany>("TakeManySparseFromTensorsMap",
                                                                           {.flags = TENON_KERNEL_STATEFUL,
                                                                            .dynamic_outputs = TENON_DYNAMIC_ALL});

TENON_OP(kAddSparseToTensorsMap) = DefineOp({
    .name = "AddSparseToTensorsMap",
    .inputs = kInputs,
    .outputs = "sparse_handle: int64",
    .attrs = "T: type; container: string = ''; shared_name: string = ''",
    .constraints = kRanks,
    .doc = "Keeps a sparse tensor under a number until it is taken.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AddOneShape>,
});

TENON_OP(kAddManySparseToTensorsMap) = DefineOp({
    .name = "AddManySparseToTensorsMap",
    .inputs = kInputs,
    .outputs = "sparse_handles: int64",
    .attrs = "T: type; container: string = ''; shared_name: string = ''",
    .constraints = kRanks,
    .doc = "Keeps each row of a sparse tensor, whose elements are in order, under a number until it is taken.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AddManyShape>,
});

TENON_OP(kTakeManySparseFromTensorsMap) = DefineOp({
    .name = "TakeManySparseFromTensorsMap",
    .inputs = "sparse_handles: int64",
    .outputs = "sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    .attrs = "dtype: type; container: string = ''; shared_name: string = ''",
    .constraints = "rank(sparse_handles) == 1",
    .doc = "The sparse tensor whose rows are those that were kept under the numbers, which are kept no longer. "
           "shared_name: the name of the op that keeps them.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<TakeManyShape>,
});

}  // namespace tenon::ops
