// SPDX-License-Identifier: Apache-2.0
// SparseCross, SparseCrossV2, SparseCrossHashed, RaggedCross: of each row every combination of one feature from each
// column, as a text or as the number of a bucket.
#include <algorithm>
#include <array>
#include <limits>
#include <memory_resource>
#include <string>

#include "chosen.h"
#include "splits.h"
#include "tenon/extras/kernel/fingerprint.h"
#include "tenon/extras/kernel/sip_hash.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Two fingerprints into one.
uint64_t Joined(uint64_t first, uint64_t second) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
  const auto fold = [](uint64_t value) { return value ^ value >> 47; };
  uint64_t joined = first ^ kFactor;
  joined ^= fold(second * kFactor) * kFactor;
  joined *= kFactor;
  return fold(fold(joined) * kFactor);
}

// The features of each row, int64 or texts: of a sparse matrix whose elements are in the order of its rows, or of a
// dense one.
class Column {
 public:
  Column(const RunContext& c, const tenon_tensor_view& indices, const tenon_tensor_view& values,
         const tenon_tensor_view& shape, std::pmr::memory_resource* memory)
      : values_(&values), starts_(memory) {
    const sparse::Parts parts(c, indices, values, shape, sparse::Order::kAny);
    if (parts.rank() != 2)
      Fail(TENON_INVALID_ARGUMENT, "Expected sparse inputs of rank 2; one has the dense shape ", parts.shape);
    rows_ = parts.shape[0];
    starts_.assign(static_cast<size_t>(Add(rows_, 1)), 0);
    for (int64_t i = 0; i < parts.count; ++i) {
      if (i > 0 && parts.At(i)[0] < parts.At(i - 1)[0])
        Fail(TENON_INVALID_ARGUMENT, "indices[", i, "] is out of order: row ", parts.At(i)[0], " follows row ",
             parts.At(i - 1)[0]);
      ++starts_[static_cast<size_t>(parts.At(i)[0]) + 1];
    }
    for (size_t row = 1; row < starts_.size(); ++row) starts_[row] += starts_[row - 1];
  }
  Column(const tenon_tensor_view& values, std::pmr::memory_resource* memory) : values_(&values), starts_(memory) {
    if (values.dl.ndim != 2)
      Fail(TENON_INVALID_ARGUMENT, "Expected dense inputs of rank 2; one has shape ", DimsOf(values));
    rows_ = DimsOf(values)[0];
    width_ = DimsOf(values)[1];
  }
  // The rows of a ragged tensor.
  Column(const RunContext& c, const tenon_tensor_view& values, const tenon_tensor_view& splits_view,
         std::pmr::memory_resource* memory)
      : values_(&values), starts_(memory) {
    const sparse::Splits splits(splits_view, "ragged_row_splits");
    if (values.dl.ndim != 1)
      Fail(TENON_INVALID_ARGUMENT, "ragged_values must be vectors; one has shape ", DimsOf(values));
    splits.CheckWithin(c, sdk::Count(values));
    rows_ = splits.rows();
    starts_.resize(static_cast<size_t>(rows_) + 1);
    for (int64_t row = 0; row <= rows_; ++row) starts_[static_cast<size_t>(row)] = splits[row];
  }
  int64_t rows() const { return rows_; }
  int64_t Count(int64_t row) const {
    return starts_.empty() ? width_ : starts_[static_cast<size_t>(row) + 1] - starts_[static_cast<size_t>(row)];
  }
  // The place among the values of feature i of a row.
  int64_t Place(int64_t row, int64_t i) const {
    return (starts_.empty() ? row * width_ : starts_[static_cast<size_t>(row)]) + i;
  }
  bool is_dense() const { return starts_.empty(); }
  bool is_text() const { return values_->dtype == TENON_DT_STRING; }
  std::string_view Text(int64_t place) const { return StringAt(*values_, place); }
  int64_t Number(int64_t place) const { return Data<const int64_t>(*values_)[place]; }

 private:
  const tenon_tensor_view* values_;
  std::pmr::vector<int64_t> starts_;  // of sparse ones
  int64_t rows_ = 0, width_ = 0;
};

// Columns of as many rows each.
struct Columns {
  explicit Columns(const RunContext& c) : memory(c) {}
  // N indices, values, N shapes, dense inputs.
  Columns(const RunContext& c, int64_t sparse, int64_t dense) : Columns(c) {
    const auto n = static_cast<int32_t>(sparse), more = static_cast<int32_t>(dense);
    for (int32_t i = 0; i < n; ++i)
      columns.emplace_back(c, c.input_view(i), c.input_view(n + i), c.input_view(2 * n + i), &memory);
    for (int32_t i = 0; i < more; ++i) columns.emplace_back(c.input_view(3 * n + i), &memory);
    CountAll(c);
    const int64_t shape[] = {rows(), widest};
    c.AllocOutput(0, std::array{total, int64_t{2}});
    c.AllocOutput(2, std::array{int64_t{2}});
    std::copy(shape, shape + 2, c.output<int64_t>(2));
    ForEach(c, [index = c.output<int64_t>(0)](int64_t row, int64_t number, const std::vector<int64_t>&) mutable {
      *index++ = row;
      *index++ = number;
    });
  }
  // Whether there are so many.
  void CountAll(const RunContext& c) {
    if (columns.empty()) Fail(TENON_INVALID_ARGUMENT, "there are no columns to cross");
    for (const Column& column : columns)
      if (column.rows() != rows())
        Fail(TENON_INVALID_ARGUMENT, "Expected batch size ", rows(), " of all columns; one has ", column.rows());
    CancelPoll poll(c);
    for (int64_t row = 0; row < rows(); ++row, poll(static_cast<int64_t>(columns.size()) + 1)) {
      total = Add(total, CountOf(row));
      widest = std::max(widest, CountOf(row));
    }
  }
  int64_t rows() const { return columns[0].rows(); }
  int64_t CountOf(int64_t row) const {
    int64_t count = 1;
    for (const Column& column : columns)
      if (column.Count(row) == 0) return 0;
    for (const Column& column : columns) count = Multiply(count, column.Count(row));
    return count;
  }
  // Calls function(row, its number in the row, places) for each combination, the last column's features one after the
  // other first.
  template <class Function>
  void ForEach(const RunContext& c, Function function) const {
    std::vector<int64_t> at(columns.size()), places(columns.size());
    CancelPoll poll(c);
    for (int64_t row = 0; row < rows(); ++row, poll()) {
      if (CountOf(row) == 0) continue;
      std::fill(at.begin(), at.end(), 0);
      for (int64_t number = 0, more = 1; more != 0; ++number, poll(static_cast<int64_t>(columns.size()) * 20)) {
        for (size_t i = 0; i < columns.size(); ++i) places[i] = columns[i].Place(row, at[i]);
        function(row, number, places);
        size_t i = columns.size();
        while (i > 0 && ++at[i - 1] == columns[i - 1].Count(row)) at[--i] = 0;
        more = static_cast<int64_t>(i);
      }
    }
  }
  StepMemory memory;
  std::vector<Column> columns;
  int64_t total = 0, widest = 0;
};

void GiveTexts(const RunContext& c, int32_t output, const Columns& crossed, std::string_view separator) {
  StepMemory memory(c), other(c);
  std::pmr::string bytes(&memory);
  std::pmr::vector<uint64_t> ends(&other);
  crossed.ForEach(c, [&](int64_t, int64_t, const std::vector<int64_t>& places) {
    for (size_t i = 0; i < places.size(); ++i) {
      const Column& column = crossed.columns[i];
      if (i > 0) bytes += separator;
      if (column.is_text()) bytes += column.Text(places[i]);
      else bytes += std::to_string(column.Number(places[i]));
    }
    ends.push_back(bytes.size());
  });
  c.AllocOutput(output, std::array{crossed.total}, bytes.size());
  char* const base = c.output<char>(output);
  const uint64_t first = ends.size() * sizeof(tenon_string_cell);
  uint64_t begin = 0;
  for (size_t i = 0; i < ends.size(); begin = ends[i++])
    reinterpret_cast<tenon_string_cell*>(base)[i] = {first + begin, ends[i] - begin};
  if (!bytes.empty()) std::memcpy(base + first, bytes.data(), bytes.size());
}

// start: what all are joined to, nullptr for nothing; hash(column, place): a feature's number.
template <class Hash>
void GiveBuckets(const RunContext& c, int32_t output, const Columns& crossed, const uint64_t* start, int64_t buckets,
                 const Hash& hash) {
  c.AllocOutput(output, std::array{crossed.total});
  int64_t* out = c.output<int64_t>(output);
  const uint64_t modulus =
      static_cast<uint64_t>(buckets > 0 ? buckets : std::numeric_limits<int64_t>::max());  // never negative
  crossed.ForEach(c, [&](int64_t, int64_t, const std::vector<int64_t>& places) {
    uint64_t joined =
        start != nullptr ? Joined(*start, hash(crossed.columns[0], places[0])) : hash(crossed.columns[0], places[0]);
    for (size_t i = 1; i < places.size(); ++i) joined = Joined(joined, hash(crossed.columns[i], places[i]));
    *out++ = static_cast<int64_t>(joined % modulus);
  });
}

uint64_t WeakHash(const Column& column, int64_t place) {
  return column.is_text() ? Fingerprint(column.Text(place)) : static_cast<uint64_t>(column.Number(place));
}

struct Sizes {
  explicit Sizes(CreateContext& c) : sparse(c.Int("N")), dense(static_cast<int64_t>(c.Types("dense_types").size())) {
    if (static_cast<int64_t>(c.Types("sparse_types").size()) != sparse)
      c.Invalid("there are ", sparse, " sparse inputs and ", c.Types("sparse_types").size(), " sparse_types");
  }
  int64_t sparse, dense;
};

struct Cross : Sizes {
  explicit Cross(CreateContext& c)
      : Sizes(c),
        hashed(c.Bool("hashed_output")),
        buckets(c.Int("num_buckets")),
        key(static_cast<uint64_t>(c.Int("hash_key"))) {
    texts = c.Type("internal_type") == TENON_DT_STRING;
    if (hashed != (c.Type("out_type") == TENON_DT_INT64))
      c.Invalid("hashed_output is ", hashed ? "true" : "false", ", and out_type ", TypeName(c.Type("out_type")));
  }
  void Run(RunContext c) const {
    const Columns crossed(c, sparse, dense);
    for (const Column& column : crossed.columns)
      if (texts && !column.is_text())
        Fail(TENON_INVALID_ARGUMENT, "Input values should be of internal type string, and a column is of int64");
    if (!hashed) return GiveTexts(c, 1, crossed, "_X_");
    GiveBuckets(c, 1, crossed, &key, buckets, WeakHash);
  }
  bool hashed, texts = false;
  int64_t buckets;
  uint64_t key;
};

struct CrossV2 : Sizes {
  explicit CrossV2(CreateContext& c) : Sizes(c) {}
  void Run(RunContext c) const {
    GiveTexts(c, 1, Columns(c, sparse, dense), StringAt(c.input_view(c.input_count() - 1), 0));
  }
};

struct CrossHashed : Sizes {
  explicit CrossHashed(CreateContext& c) : Sizes(c) {}
  void Run(RunContext c) const {
    const int32_t first = c.input_count() - 3;
    const int64_t buckets = *c.input<int64_t>(first);
    const bool strong = *c.input<bool>(first + 1);
    if (Count(c.input_view(first + 2)) != 2)
      Fail(TENON_INVALID_ARGUMENT, "salt must have 2 numbers, not ", Count(c.input_view(first + 2)));
    const auto* salt = c.input<uint64_t>(first + 2);
    GiveBuckets(c, 1, Columns(c, sparse, dense), nullptr, buckets, [&](const Column& column, int64_t place) {
      if (!column.is_text() && column.is_dense()) return static_cast<uint64_t>(column.Number(place));
      if (!column.is_text()) {  // of a sparse one four bytes count, as TensorFlow has it
        const auto low = static_cast<uint32_t>(column.Number(place));
        const std::string_view bytes(reinterpret_cast<const char*>(&low), sizeof(low));
        return strong ? SipHash(salt[0], salt[1]).Of(bytes) : Fingerprint(bytes);
      }
      return strong ? SipHash(salt[0], salt[1]).Of(column.Text(place)) : Fingerprint(column.Text(place));
    });
  }
};

struct CrossRagged {
  explicit CrossRagged(CreateContext& c)
      : order(c.String("input_order")),
        hashed(c.Bool("hashed_output")),
        buckets(c.Int("num_buckets")),
        key(static_cast<uint64_t>(c.Int("hash_key"))),
        wide(c.Type("out_row_splits_type") == TENON_DT_INT64),
        ragged(static_cast<int32_t>(c.Types("ragged_values_types").size())),
        sparse(static_cast<int32_t>(c.Int("Nsparse"))),
        dense(static_cast<int32_t>(c.Types("dense_types").size())) {
    if (c.Types("ragged_splits_types").size() != static_cast<size_t>(ragged) ||
        c.Types("sparse_values_types").size() != static_cast<size_t>(sparse))
      c.Invalid("there are ", ragged, " ragged values and ", c.Types("ragged_splits_types").size(), " splits, ", sparse,
                " sparse indices and ", c.Types("sparse_values_types").size(), " values");
    const auto count = [this](char kind) { return std::count(order.begin(), order.end(), kind); };
    if (count('R') != ragged || count('S') != sparse || count('D') != dense ||
        count('R') + count('S') + count('D') != static_cast<int64_t>(order.size()))
      c.Invalid("Invalid input_order value '", order,
                "': it has one R, S or D for each ragged, sparse and dense input");
    if (hashed != (c.Type("out_values_type") == TENON_DT_INT64))
      c.Invalid("hashed_output is ", hashed ? "true" : "false", ", and out_values_type ",
                TypeName(c.Type("out_values_type")));
  }
  void Run(RunContext c) const {
    Columns crossed(c);
    int32_t r = 0, s = 0, d = 0;
    const int32_t first_sparse = 2 * ragged, first_dense = first_sparse + 3 * sparse;
    for (const char kind : order) {
      if (kind == 'R') {
        crossed.columns.emplace_back(c, c.input_view(r), c.input_view(ragged + r), &crossed.memory);
        ++r;
      } else if (kind == 'S') {
        crossed.columns.emplace_back(c, c.input_view(first_sparse + s), c.input_view(first_sparse + sparse + s),
                                     c.input_view(first_sparse + 2 * sparse + s), &crossed.memory);
        ++s;
      } else {
        crossed.columns.emplace_back(c.input_view(first_dense + d++), &crossed.memory);
      }
    }
    crossed.CountAll(c);
    ops::sparse::SplitsWriter splits(c, 1, wide ? TENON_DT_INT64 : TENON_DT_INT32, crossed.rows());
    for (int64_t row = 0; row < crossed.rows(); ++row) splits.Add(crossed.CountOf(row));
    if (hashed) GiveBuckets(c, 0, crossed, &key, buckets, WeakHash);
    else GiveTexts(c, 0, crossed, "_X_");
  }
  std::string order;
  bool hashed;
  int64_t buckets;
  uint64_t key;
  bool wide;
  int32_t ragged, sparse, dense;
};

void CrossRaggedShape(ShapeContext& c) {
  c.SetOutput(0, {kUnknown});
  c.SetOutput(1, {kUnknown});
}
void CrossShape(ShapeContext& c) {
  c.SetOutput(0, {kUnknown, 2});
  c.SetOutput(1, {kUnknown});
  c.SetOutput(2, {2});
}

constexpr Traits kGivesCrosses = {.dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kSparseCrossKernel) = Registration<Cross>("SparseCross", kGivesCrosses);
TENON_KERNEL(kSparseCrossV2Kernel) = Registration<CrossV2>("SparseCrossV2", kGivesCrosses);
TENON_KERNEL(kSparseCrossHashedKernel) = Registration<CrossHashed>("SparseCrossHashed", kGivesCrosses);

TENON_KERNEL(kRaggedCrossKernel) = Registration<CrossRagged>("RaggedCross", kGivesCrosses);

TENON_OP(kRaggedCross) = DefineOp({
    .name = "RaggedCross",
    .inputs = "ragged_values: ragged_values_types, ragged_row_splits: ragged_splits_types, sparse_indices: Nsparse * "
              "int64, sparse_values: sparse_values_types, sparse_shape: Nsparse * int64, "
              "dense_inputs: dense_types",
    .outputs = "output_values: out_values_type, output_row_splits: out_row_splits_type",
    .attrs = "Nsparse: int >= 0; input_order: string; hashed_output: bool; num_buckets: int >= 0; hash_key: int; "
             "ragged_values_types: list({int64, string}); "
             "ragged_splits_types: list({int32, int64}); sparse_values_types: list({int64, string}); dense_types: "
             "list({int64, string}); out_values_type: {int64, string}; "
             "out_row_splits_type: {int32, int64}",
    .doc = "Of each row every combination of one feature from each column, in the order that input_order says (R: "
           "ragged, S: sparse, D: dense): joined with '_X_', or the "
           "number of a bucket.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<CrossRaggedShape>,
});

TENON_OP(kSparseCross) = DefineOp({
    .name = "SparseCross",
    .inputs = "indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types",
    .outputs = "output_indices: int64, output_values: out_type, output_shape: int64",
    .attrs = "N: int >= 0; hashed_output: bool; num_buckets: int >= 0; hash_key: int; sparse_types: list({int64, "
             "string}); dense_types: list({int64, string}); "
             "out_type: {int64, string}; internal_type: {int64, string}",
    .doc =
        "Of each row every combination of one feature from each column: joined with '_X_', or the number of a bucket.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<CrossShape>,
});

TENON_OP(kSparseCrossV2) = DefineOp({
    .name = "SparseCrossV2",
    .inputs = "indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types, sep: string",
    .outputs = "output_indices: int64, output_values: string, output_shape: int64",
    .attrs = "N: int >= 0; sparse_types: list({int64, string}); dense_types: list({int64, string})",
    .constraints = "rank(sep) == 0",
    .doc = "Of each row every combination of one feature from each column, joined with the separator.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<CrossShape>,
});

TENON_OP(kSparseCrossHashed) = DefineOp({
    .name = "SparseCrossHashed",
    .inputs = "indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types, num_buckets: "
              "int64, strong_hash: bool, salt: int64",
    .outputs = "output_indices: int64, output_values: int64, output_shape: int64",
    .attrs = "N: int >= 0; sparse_types: list({int64, string}); dense_types: list({int64, string})",
    .constraints = "rank(num_buckets) == 0; rank(strong_hash) == 0; rank(salt) == 1",
    .doc = "Of each row every combination of one feature from each column, as the number of a bucket; strong_hash: "
           "which nobody who does not know the salt can steer.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<CrossShape>,
});

}  // namespace tenon::ops
