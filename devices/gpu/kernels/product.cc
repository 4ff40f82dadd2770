// SPDX-License-Identifier: Apache-2.0
#include "kernels/product.h"

#include <algorithm>
#include <optional>

namespace tenon::gpu {
namespace {

constexpr int64_t kMostBlocksOfDim = 65535;
constexpr int64_t kLeastPart = 128;  // of a depth that is split
constexpr int64_t kMostParts = 64;

int64_t Pieces(int64_t whole, int64_t piece) { return (whole + piece - 1) / piece; }

bool HasLargeTiles(uint32_t dtype) {
  return dtype == TENON_DT_FLOAT || dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16;
}
bool HasFlatTiles(uint32_t dtype) { return HasLargeTiles(dtype) || dtype == TENON_DT_DOUBLE; }

template <class... Numbers>
bool InFours(Numbers... numbers) {
  return ((numbers % 4 == 0) && ...);
}
bool InFours(const Steps& steps) { return InFours(steps.step, steps.inner, steps.outer_step); }
bool AreNeighbours(const Steps& steps) {
  return steps.step == 1 && (steps.inner == 0 || InFours(steps.inner, steps.outer_step));
}
bool BatchesInFours(const ProductBatches& batches, int64_t step, const int64_t* strides) {
  return InFours(step) && std::all_of(strides, strides + batches.rank, [](int64_t stride) { return InFours(stride); });
}

// Which way neighbours in memory stand, and whether four of them may be loaded at once.
void Inspect(const ProductBatches& batches, int64_t lines, int64_t depth, int64_t step, const int64_t* strides,
             MatrixView* view) {
  view->along_depth = view->depth.step == 1 && (view->line.step != 1 || depth >= lines);
  const Steps& along = view->along_depth ? view->depth : view->line;
  const Steps& across = view->along_depth ? view->line : view->depth;
  view->quads = AreNeighbours(along) && InFours(across) && InFours(view->along_depth ? depth : lines) &&
                BatchesInFours(batches, step, strides);
}
void Inspect(const ProductBatches& batches, PatchView* view) {
  view->along_cells = view->channel_step == 1;
  view->quads = view->along_cells && InFours(view->channels, view->image_step, view->row_step, view->column_step) &&
                BatchesInFours(batches, batches.left_step, batches.left_strides);
}

// The same product the other way round: columns are rows. Of results whose rows are of one piece.
void Turn(ProductProblem* p) {
  std::swap(p->rows, p->columns);
  std::swap(p->left, p->right);
  std::swap(p->out_row.step, p->out_column_step);
  std::swap(p->batches.left_step, p->batches.right_step);
  std::swap(p->batches.left_strides, p->batches.right_strides);
}

// As one that lies in memory in lines or turned; none: in neither way. lines: of rows, depth: within.
std::optional<MatrixProduct::Matrix> MatrixOf(const Steps& line, const Steps& depth, int64_t lines, int64_t length,
                                              int64_t batch) {
  if (line.inner != 0 || depth.inner != 0) return {};
  if (depth.step == 1 || length == 1) return MatrixProduct::Matrix{false, std::max(line.step, length), batch};
  if (line.step == 1 || lines == 1) return MatrixProduct::Matrix{true, std::max(depth.step, lines), batch};
  return {};
}
// The problem as the vendor's libraries know it, if they do.
std::optional<MatrixProduct> LibrarysProblem(const ProductProblem& p, uint32_t precision, ProductEnd end) {
  if (p.left_kind != ProductProblem::Left::kMatrix || p.batches.rank > 0 || p.out_column_step != 1 ||
      p.rows * p.columns * p.depth == 0)
    return {};
  const auto left = MatrixOf(p.left.line, p.left.depth, p.rows, p.depth, p.batches.left_step);
  const auto right = MatrixOf(p.right.line, p.right.depth, p.columns, p.depth, p.batches.right_step);
  const auto out = MatrixOf(p.out_row, {1, 0, 0}, p.rows, p.columns, p.batches.out_step);
  if (!left.has_value() || !right.has_value() || !out.has_value()) return {};
  MatrixProduct product;
  product.dtype = p.dtype;
  product.precision = precision;
  product.sums = p.keeps_sums;
  product.rows = p.rows;
  product.columns = p.columns;
  product.depth = p.depth;
  product.batches = p.batches.count;
  product.left = *left;
  product.right = {!right->turned, right->step, right->batch};  // its lines are columns
  product.out = *out;
  product.bias = end.bias;
  product.relu = end.relu;
  return product;
}

}  // namespace

bool IsLibrarys(const ProductProblem& problem, const Shapes& s) {
  const std::optional<MatrixProduct> product = LibrarysProblem(problem, s.precision(), {});
  return product.has_value() && s.device().FindWork(*product) != nullptr;
}

ProductPlan::ProductPlan(const ProductProblem& asked, Shapes& s, ProductEnd end)
    : end_(end), keeps_sums_(asked.keeps_sums) {
  if (const std::optional<MatrixProduct> product = LibrarysProblem(asked, s.precision(), end))
    library_ = s.device().FindWork(*product);
  const uint32_t summed = keeps_sums_ ? static_cast<uint32_t>(TENON_DT_FLOAT) : asked.dtype;  // what the result is of
  // The end of sums where they stand: one for each result, of the type that is summed up in.
  const bool may_end = (summed == TENON_DT_FLOAT || summed == TENON_DT_DOUBLE) && asked.out_row.inner == 0 &&
                       asked.out_row.step == asked.columns &&
                       (asked.batches.count == 1 || asked.batches.out_step == asked.rows * asked.columns);
  if (library_ != nullptr && !library_->has_end() && !may_end) library_ = nullptr;
  if (library_ != nullptr) library_at_ = s.Workspace(library_->workspace_bytes());
  if (library_ != nullptr && !library_->has_end()) end_code_ = s.Code("ProductSum", summed);
  const uint32_t dtype = UnsignedType(asked.dtype);  // wraps alike
  ProductProblem problem = asked;
  const bool may_be_flat = problem.left_kind == ProductProblem::Left::kMatrix && HasFlatTiles(dtype);
  is_turned_ =
      may_be_flat && problem.out_row.inner == 0 && problem.columns <= kFlatTile.rows && problem.rows > kFlatTile.rows;
  if (is_turned_) Turn(&problem);
  ProductParams& p = params_;
  p.rows = problem.rows;
  p.columns = problem.columns;
  p.depth = problem.depth;
  p.left_view = problem.left;
  p.right_view = problem.right;
  p.patches = problem.patches;
  p.out_row = problem.out_row;
  p.out_column_step = problem.out_column_step;
  p.batches = problem.batches;
  Inspect(p.batches, p.rows, p.depth, p.batches.left_step, p.batches.left_strides, &p.left_view);
  Inspect(p.batches, p.columns, p.depth, p.batches.right_step, p.batches.right_strides, &p.right_view);
  Inspect(p.batches, &p.patches);
  p.out_quads = p.out_column_step == 1 && InFours(p.out_row) && InFours(p.columns, p.batches.out_step);
  p.out_along_rows = p.out_row.step == 1 && p.out_column_step != 1;
  quad_bytes_ = 4 * sdk::ElementSize(dtype);

  const int64_t processors = s.facts().processors, batches = p.batches.count;
  const auto tiles_of = [&](const ProductTile& tile) {
    return sdk::Multiply(Pieces(p.rows, tile.rows), Pieces(p.columns, tile.columns));
  };
  const bool is_flat = may_be_flat && p.rows <= kFlatTile.rows;
  const bool is_large = HasLargeTiles(dtype) && p.rows > kSmallTile.rows && p.columns > kSmallTile.columns &&
                        sdk::Multiply(tiles_of(kLargeTile), batches) >= processors;
  tiles_ = tiles_of(is_flat ? kFlatTile : is_large ? kLargeTile : kSmallTile);
  if (tiles_ > INT32_MAX) sdk::Fail(TENON_UNIMPLEMENTED, "a product of ", p.rows, " rows and ", p.columns, " columns");
  const int64_t blocks = sdk::Multiply(tiles_, batches);
  // Where there is too little to do for all processors, parts of the depth are blocks of their own.
  const int64_t wanted = blocks == 0 ? 1 : std::min({2 * processors / blocks, p.depth / kLeastPart, kMostParts});
  p.part_depth =
      std::max<int64_t>(1, Pieces(Pieces(p.depth, std::max<int64_t>(wanted, 1)), kDeepestStep)) * kDeepestStep;
  p.parts_count = std::max<int64_t>(1, Pieces(p.depth, p.part_depth));
  p.batch_blocks = std::min(batches, kMostBlocksOfDim);

  static constexpr std::string_view kCodes[][2] = {{"Product", "ProductLarge"},
                                                   {"PatchProduct", "PatchProductLarge"},
                                                   {"TurnedPatchProduct", "TurnedPatchProductLarge"}};
  tile_ = s.Code(is_flat ? "ProductFlat" : kCodes[static_cast<size_t>(problem.left_kind)][is_large ? 1 : 0], dtype);
  const bool are_in_order = p.out_column_step == 1 && p.out_row.inner == 0 && p.out_row.step == p.columns &&
                            (batches == 1 || p.batches.out_step == p.rows * p.columns);
  if (p.parts_count == 1 && (!keeps_sums_ || (are_in_order && !end.bias && !end.relu))) return;
  sum_ = s.Code("ProductSum", keeps_sums_ ? summed : dtype);
  const int64_t element = std::max<int64_t>(4, static_cast<int64_t>(sdk::ElementSize(dtype)));
  parts_at_ =
      s.Workspace(sdk::Multiply(sdk::Multiply(sdk::Multiply(p.rows, p.columns), batches), p.parts_count * element));
}

void ProductPlan::Launch(Launcher& on, const void* left, const void* right, void* out, const void* bias) const {
  if (library_ == nullptr || !on.Launch(*library_, {left, right, out, bias, on.Workspace<void>(library_at_)}))
    return LaunchOwn(on, left, right, out, bias);
  if (end_code_ != nullptr) LaunchEnd(on, out, bias);
}

// Rows and columns are those that were asked for, if need be the other way round.
void ProductPlan::LaunchEnd(Launcher& on, void* out, const void* bias) const {
  ProductParams p = {};
  p.rows = is_turned_ ? params_.columns : params_.rows;
  p.columns = is_turned_ ? params_.rows : params_.columns;
  p.parts = p.out = out;
  p.parts_count = 1;
  p.out_row.step = p.columns;
  p.out_column_step = 1;
  p.batches.count = params_.batches.count;
  p.batches.out_step = p.rows * p.columns;
  p.epilogue = {bias, end_.relu, false};
  on(end_code_, Flat(p.batches.count * p.rows * p.columns), p);
}

void ProductPlan::LaunchOwn(Launcher& on, const void* left, const void* right, void* out, const void* bias) const {
  if (tiles_ == 0 || params_.batches.count == 0) return;
  if (is_turned_) std::swap(left, right);
  ProductParams p = params_;
  p.left = left;
  p.right = right;
  p.out = out;
  p.epilogue = {bias, end_.relu, is_turned_};
  const auto even = [&](const void* address) { return reinterpret_cast<uintptr_t>(address) % quad_bytes_ == 0; };
  p.left_view.quads &= even(left);
  p.patches.quads &= even(left);
  p.right_view.quads &= even(right);
  p.out_quads &= even(out);
  p.parts = sum_ != nullptr ? on.Workspace<void>(parts_at_) : keeps_sums_ ? out : nullptr;
  on(tile_,
     Grid{{static_cast<uint32_t>(tiles_), static_cast<uint32_t>(p.parts_count), static_cast<uint32_t>(p.batch_blocks)},
          kProductThreads},
     p);
  if (sum_ != nullptr) on(sum_, Flat(p.batches.count * p.rows * p.columns), p);
}

}  // namespace tenon::gpu
