// SPDX-License-Identifier: Apache-2.0
// A block makes one tile of the product. Step by step through the depth, its threads bring a piece of left and of right
// into shared memory, while they multiply the piece before; each thread keeps the sums of a small tile in registers.
#include "code/product.h"

#include "code/grid.h"
#include "tenon/extras/kernel/elementwise.h"

namespace tenon::gpu {

// Four neighbours, in memory and in shared memory.
template <class T>
struct alignas(sizeof(T) * 4 < 16 ? sizeof(T) * 4 : 16) Quad {
  T at[4];
};

TENON_GPU_FUNCTION int64_t Quotient(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}
TENON_GPU_FUNCTION int64_t Offset(const Steps& steps, int64_t i) {
  if (steps.inner == 0) return i * steps.step;
  const int64_t piece = Quotient(i, steps.inner);
  return piece * steps.outer_step + (i - piece * steps.inner) * steps.step;
}

// ---- Operands: a Line and a Depth are what is worked out once for many elements; Address is -1 where there is none
// ----

template <class T>
class MatrixSource {
 public:
  using Line = int64_t;
  using Depth = int64_t;
  TENON_GPU_FUNCTION MatrixSource(const void* data, const MatrixView& view, int64_t offset, int64_t lines, int64_t end)
      : data_(static_cast<const T*>(data) + offset), view_(view), lines_(lines), end_(end) {}
  TENON_GPU_FUNCTION bool along_depth() const { return view_.along_depth; }
  TENON_GPU_FUNCTION bool quads() const { return view_.quads; }
  TENON_GPU_FUNCTION const T* data() const { return data_; }
  TENON_GPU_FUNCTION Line LineAt(int64_t i) const { return i < lines_ ? Offset(view_.line, i) : -1; }
  TENON_GPU_FUNCTION Depth DepthAt(int64_t k) const { return k < end_ ? Offset(view_.depth, k) : -1; }
  TENON_GPU_FUNCTION int64_t Address(Line line, Depth depth) const { return line < 0 || depth < 0 ? -1 : line + depth; }

 private:
  const T* data_;
  const MatrixView& view_;
  int64_t lines_, end_;
};

template <class T, bool kTurned>
class PatchSource {
 public:
  // A pixel of the plane of windows, or a cell of a window: its part of the address (-1: none) and of the coordinates.
  struct Part {
    int64_t at;
    int32_t y, x;
  };
  using Line = Part;
  using Depth = Part;
  TENON_GPU_FUNCTION PatchSource(const void* data, const PatchView& view, int64_t offset, int64_t lines, int64_t end)
      : data_(static_cast<const T*>(data) + offset), view_(view), lines_(lines), end_(end) {}
  TENON_GPU_FUNCTION bool along_depth() const { return view_.along_cells != kTurned; }
  TENON_GPU_FUNCTION bool quads() const { return view_.quads; }
  TENON_GPU_FUNCTION const T* data() const { return data_; }
  TENON_GPU_FUNCTION Part LineAt(int64_t i) const {
    if (i >= lines_) return {-1, 0, 0};
    return kTurned ? Cell(i) : Pixel(i);
  }
  TENON_GPU_FUNCTION Part DepthAt(int64_t k) const {
    if (k >= end_) return {-1, 0, 0};
    return kTurned ? Pixel(k) : Cell(k);
  }
  TENON_GPU_FUNCTION int64_t Address(const Part& a, const Part& b) const {
    if (a.at < 0 || b.at < 0) return -1;
    int32_t y = a.y + b.y, x = a.x + b.x;
    if (y < 0 || x < 0) return -1;
    if (view_.y_divide != 1 || view_.x_divide != 1) {
      const int32_t above = y / view_.y_divide, before = x / view_.x_divide;
      if (above * view_.y_divide != y || before * view_.x_divide != x) return -1;
      y = above;
      x = before;
    }
    if (y >= view_.height || x >= view_.width) return -1;
    return a.at + b.at + y * view_.row_step + x * view_.column_step;
  }

 private:
  TENON_GPU_FUNCTION Part Pixel(int64_t p) const {
    const int64_t image = Quotient(p, view_.plane), pixel = p - image * view_.plane;
    const int64_t y = Quotient(pixel, view_.plane_width), x = pixel - y * view_.plane_width;
    return {image * view_.image_step, static_cast<int32_t>(y) * view_.y_scale + view_.y_shift,
            static_cast<int32_t>(x) * view_.x_scale + view_.x_shift};
  }
  TENON_GPU_FUNCTION Part Cell(int64_t e) const {
    const int64_t tap = Quotient(e, view_.channels), channel = e - tap * view_.channels;
    const int64_t y = Quotient(tap, view_.window_width), x = tap - y * view_.window_width;
    return {channel * view_.channel_step, static_cast<int32_t>(y) * view_.y_tap, static_cast<int32_t>(x) * view_.x_tap};
  }
  const T* data_;
  const PatchView& view_;
  int64_t lines_, end_;
};

// What one thread brings of an operand at every step: four neighbours in the direction in which memory goes, once or
// several times; of small pieces not every thread brings something.
template <class T, class A, class Source, int kSide, int kDepth>
class Loader {
  static constexpr int kPieces = kSide * kDepth / 4;
  static constexpr int kThreads = static_cast<int>(kProductThreads);
  static constexpr int kTimes = (kPieces + kThreads - 1) / kThreads;
  static constexpr int kRow = kSide + 4;  // a little more, so that columns do not share a bank

 public:
  static constexpr int kShared = kDepth * kRow;  // elements
  TENON_GPU_FUNCTION Loader(const Source& source, int64_t first_line, int64_t first_depth)
      : source_(source), next_(first_depth) {
    TENON_GPU_UNROLL_ALL
    for (int t = 0; t < kTimes; ++t) {
      const int64_t line = first_line + LineOf(t);
      lines_[t][0] = source.LineAt(line);
      const bool one = source.along_depth() || source.quads();
      for (int i = 1; i < 4; ++i) lines_[t][i] = one ? lines_[t][0] : source.LineAt(line + i);
    }
  }
  TENON_GPU_FUNCTION void Fetch() {
    const T* data = source_.data();
    TENON_GPU_UNROLL_ALL
    for (int t = 0; t < kTimes; ++t) {
      if (!IsMine(t)) continue;
      const int64_t first = next_ + DepthOf(t);
      const auto depth = source_.DepthAt(first);
      if (source_.quads()) {
        const int64_t at = source_.Address(lines_[t][0], depth);
        Quad<T> four = {};
        if (at >= 0) four = *reinterpret_cast<const Quad<T>*>(data + at);
        for (int i = 0; i < 4; ++i) items_[t].at[i] = static_cast<A>(static_cast<Wide<T>>(four.at[i]));
      } else {
        for (int i = 0; i < 4; ++i) {
          const int64_t at =
              source_.Address(lines_[t][i], source_.along_depth() && i > 0 ? source_.DepthAt(first + i) : depth);
          items_[t].at[i] = at < 0 ? A(0) : static_cast<A>(static_cast<Wide<T>>(data[at]));
        }
      }
    }
    next_ += kDepth;
  }
  // Into rows [depth, line].
  TENON_GPU_FUNCTION void Put(A* shared) const {
    TENON_GPU_UNROLL_ALL
    for (int t = 0; t < kTimes; ++t) {
      if (!IsMine(t)) continue;
      A* to = shared + DepthOf(t) * kRow + LineOf(t);
      if (source_.along_depth()) {
        for (int i = 0; i < 4; ++i) to[i * kRow] = items_[t].at[i];
      } else {
        *reinterpret_cast<Quad<A>*>(to) = items_[t];
      }
    }
  }
  TENON_GPU_FUNCTION static Quad<A> At(const A* shared, int depth, uint32_t line) {
    return *reinterpret_cast<const Quad<A>*>(shared + depth * kRow + line);
  }

 private:
  TENON_GPU_FUNCTION int PieceOf(int t) const { return static_cast<int>(BlockThread()) + t * kThreads; }
  TENON_GPU_FUNCTION bool IsMine(int t) const { return kPieces % kThreads == 0 || PieceOf(t) < kPieces; }
  TENON_GPU_FUNCTION int LineOf(int t) const {
    return source_.along_depth() ? PieceOf(t) / (kDepth / 4) : PieceOf(t) % (kSide / 4) * 4;
  }
  TENON_GPU_FUNCTION int DepthOf(int t) const {
    return source_.along_depth() ? PieceOf(t) % (kDepth / 4) * 4 : PieceOf(t) / (kSide / 4);
  }

  const Source& source_;
  int64_t next_;
  typename Source::Line lines_[kTimes][4];
  Quad<A> items_[kTimes];
};

// ---- Results ----

template <class T, class A>
TENON_GPU_FUNCTION T Finished(const ProductEpilogue& epilogue, int64_t row, int64_t column, A sum) {
  if constexpr (std::is_floating_point_v<A>) {
    if (epilogue.bias != nullptr)
      sum += static_cast<A>(static_cast<const T*>(epilogue.bias)[epilogue.of_rows ? row : column]);
    if (epilogue.relu) sum = sdk::ReluOp()(sum);
  }
  return static_cast<T>(sum);
}

struct BatchOffsets {
  int64_t left, right;
};
TENON_GPU_FUNCTION BatchOffsets Locate(const ProductBatches& b, int64_t batch) {
  int64_t row = Quotient(batch, b.inner);
  const int64_t column = batch - row * b.inner;
  BatchOffsets at = {column * b.left_step, column * b.right_step};
  for (int d = b.rank - 1; d >= 0; --d) {
    const int64_t above = Quotient(row, b.dims[d]), index = row - above * b.dims[d];
    row = above;
    at.left += index * b.left_strides[d];
    at.right += index * b.right_strides[d];
  }
  return at;
}

// How a tile is shared among threads, each of which sums groups of 4 by 4.
template <ProductTile kTile>
struct Share {
  static constexpr int kRowThreads = static_cast<int>(kProductThreads) / kTile.column_threads;
  static constexpr int kRowsApart = kRowThreads * 4, kColumnsApart = kTile.column_threads * 4;  // from group to group
  static constexpr int kRowGroups = kTile.rows / kRowsApart, kColumnGroups = kTile.columns / kColumnsApart;
};
template <class A, ProductTile kTile>
struct Sums {
  A at[Share<kTile>::kRowGroups * 4][Share<kTile>::kColumnGroups * 4];
};

// function(row, first column, its four sums) for what of the tile is inside.
template <class A, ProductTile kTile, class Function>
TENON_GPU_FUNCTION void ForEachFour(const ProductParams& p, const Sums<A, kTile>& sums, int64_t first_row,
                                    int64_t first_column, const Function& function) {
  using S = Share<kTile>;
  TENON_GPU_UNROLL_ALL
  for (int i = 0; i < S::kRowGroups * 4; ++i) {
    const int64_t row = first_row + i / 4 * S::kRowsApart + i % 4;
    TENON_GPU_UNROLL_ALL
    for (int group = 0; group < S::kColumnGroups; ++group) {
      const int64_t column = first_column + group * S::kColumnsApart;
      if (row < p.rows && column < p.columns) function(row, column, &sums.at[i][group * 4]);
    }
  }
}
template <class T, class A, ProductTile kTile>
TENON_GPU_FUNCTION void Store(const ProductParams& p, const Sums<A, kTile>& sums, int64_t batch, int64_t part,
                              int64_t first_row, int64_t first_column) {
  if (p.parts != nullptr) {
    A* parts = static_cast<A*>(p.parts) + (part * p.batches.count + batch) * p.rows * p.columns;
    ForEachFour<A, kTile>(p, sums, first_row, first_column, [&](int64_t row, int64_t column, const A* four) {
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < 4; ++j) {
        if (column + j < p.columns) parts[row * p.columns + column + j] = four[j];
      }
    });
    return;
  }
  T* out = static_cast<T*>(p.out) + batch * p.batches.out_step;
  if (p.out_quads) {
    ForEachFour<A, kTile>(p, sums, first_row, first_column, [&](int64_t row, int64_t column, const A* four) {
      Quad<T> finished;
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < 4; ++j) finished.at[j] = Finished<T>(p.epilogue, row, column + j, four[j]);
      *reinterpret_cast<Quad<T>*>(out + Offset(p.out_row, row) + column) = finished;
    });
    return;
  }
  ForEachFour<A, kTile>(p, sums, first_row, first_column, [&](int64_t row, int64_t column, const A* four) {
    T* to = out + Offset(p.out_row, row) + column * p.out_column_step;
    TENON_GPU_UNROLL_ALL
    for (int j = 0; j < 4; ++j) {
      if (column + j < p.columns) to[j * p.out_column_step] = Finished<T>(p.epilogue, row, column + j, four[j]);
    }
  });
}

// ---- The tile ----

// Left's view of the kinds of left.
template <class T>
TENON_GPU_FUNCTION const MatrixView& ViewFor(const ProductParams& p, const MatrixSource<T>*) { return p.left_view; }
template <class T, bool kTurned>
TENON_GPU_FUNCTION const PatchView& ViewFor(const ProductParams& p, const PatchSource<T, kTurned>*) {
  return p.patches;
}

template <class T, class A, class Left, ProductTile kTile>
TENON_GPU_FUNCTION void Product(const ProductParams& p) {
  using S = Share<kTile>;
  using Right = MatrixSource<T>;
  using LeftLoader = Loader<T, A, Left, kTile.rows, kTile.depth>;
  using RightLoader = Loader<T, A, Right, kTile.columns, kTile.depth>;
  // Two of each: one is filled while the other is used.
  TENON_GPU_SHARED(Quad<A>, left_memory, 2 * LeftLoader::kShared / 4);
  TENON_GPU_SHARED(Quad<A>, right_memory, 2 * RightLoader::kShared / 4);
  A* const left_shared = reinterpret_cast<A*>(left_memory);
  A* const right_shared = reinterpret_cast<A*>(right_memory);

  const int64_t row_tiles = (p.rows + kTile.rows - 1) / kTile.rows;
  const int64_t tile = BlockX(), column_tile = Quotient(tile, row_tiles);
  const int64_t tile_row = (tile - column_tile * row_tiles) * kTile.rows, tile_column = column_tile * kTile.columns;
  const int64_t part = BlockY(), begin = part * p.part_depth;
  const int64_t end = begin + p.part_depth < p.depth ? begin + p.part_depth : p.depth;
  const int64_t steps = end > begin ? (end - begin + kTile.depth - 1) / kTile.depth : 0;
  const uint32_t row = 4 * (p.out_along_rows ? BlockThread() % S::kRowThreads : BlockThread() / kTile.column_threads);
  const uint32_t column =
      4 * (p.out_along_rows ? BlockThread() / S::kRowThreads : BlockThread() % kTile.column_threads);

  for (int64_t batch = BlockZ(); batch < p.batches.count; batch += p.batch_blocks) {
    const BatchOffsets offsets = Locate(p.batches, batch);
    const Left left_source(p.left, ViewFor(p, static_cast<const Left*>(nullptr)), offsets.left, p.rows, end);
    const Right right_source(p.right, p.right_view, offsets.right, p.columns, end);
    LeftLoader left(left_source, tile_row, begin);
    RightLoader right(right_source, tile_column, begin);
    Sums<A, kTile> sums = {};
    if (steps > 0) {
      left.Fetch();
      right.Fetch();
      left.Put(left_shared);
      right.Put(right_shared);
    }
    Barrier();
    for (int64_t step = 0; step < steps; ++step) {
      const A* lefts = left_shared + step % 2 * LeftLoader::kShared;
      const A* rights = right_shared + step % 2 * RightLoader::kShared;
      const bool more = step + 1 < steps;
      if (more) {
        left.Fetch();
        right.Fetch();
      }
      TENON_GPU_UNROLL_ALL
      for (int k = 0; k < kTile.depth; ++k) {
        Quad<A> a[S::kRowGroups], b[S::kColumnGroups];
        for (int g = 0; g < S::kRowGroups; ++g)
          a[g] = LeftLoader::At(lefts, k, static_cast<uint32_t>(g * S::kRowsApart) + row);
        for (int g = 0; g < S::kColumnGroups; ++g)
          b[g] = RightLoader::At(rights, k, static_cast<uint32_t>(g * S::kColumnsApart) + column);
        TENON_GPU_UNROLL_ALL
        for (int i = 0; i < S::kRowGroups * 4; ++i) {
          TENON_GPU_UNROLL_ALL
          for (int j = 0; j < S::kColumnGroups * 4; ++j) sums.at[i][j] += a[i / 4].at[i % 4] * b[j / 4].at[j % 4];
        }
      }
      if (more) {
        left.Put(left_shared + (step + 1) % 2 * LeftLoader::kShared);
        right.Put(right_shared + (step + 1) % 2 * RightLoader::kShared);
      }
      Barrier();
    }
    Store<T>(p, sums, batch, part, tile_row + row, tile_column + column);
  }
}

template <class T, class A>
TENON_GPU_FUNCTION void ProductSum(const ProductParams& p) {
  const A* parts = static_cast<const A*>(p.parts);
  const int64_t total = p.batches.count * p.rows * p.columns;
  for (int64_t i = Thread(); i < total; i += Threads()) {
    A sum = parts[i];
    for (int64_t part = 1; part < p.parts_count; ++part) sum += parts[part * total + i];
    const int64_t line = Quotient(i, p.columns), column = i - line * p.columns;
    const int64_t batch = Quotient(line, p.rows), row = line - batch * p.rows;
    static_cast<T*>(p.out)[batch * p.batches.out_step + Offset(p.out_row, row) + column * p.out_column_step] =
        Finished<T>(p.epilogue, row, column, sum);
  }
}

template <class T>
using Patches = PatchSource<T, false>;
template <class T>
using TurnedPatches = PatchSource<T, true>;

#define TENON_GPU_TILE(symbol, T, A, Source, size) \
  TENON_GPU_BLOCK_KERNEL_OF(kProductThreads, symbol, ProductParams, Product<T, A, Source, k##size##Tile>)
#define TENON_GPU_SMALL_TILES(suffix, T, A)                                             \
  TENON_GPU_TILE(Product_##suffix, T, A, MatrixSource<T>, Small)                        \
  TENON_GPU_KERNEL(ProductSum_##suffix, ProductParams, ProductSum<T, A>)
#define TENON_GPU_FLAT_TILES(suffix, T, A) TENON_GPU_TILE(ProductFlat_##suffix, T, A, MatrixSource<T>, Flat)
#define TENON_GPU_PATCH_TILES(suffix, T, A)                                             \
  TENON_GPU_TILE(PatchProduct_##suffix, T, A, Patches<T>, Small)                        \
  TENON_GPU_TILE(TurnedPatchProduct_##suffix, T, A, TurnedPatches<T>, Small)
#define TENON_GPU_LARGE_TILES(suffix, T, A)                                             \
  TENON_GPU_TILE(ProductLarge_##suffix, T, A, MatrixSource<T>, Large)                   \
  TENON_GPU_TILE(PatchProductLarge_##suffix, T, A, Patches<T>, Large)                   \
  TENON_GPU_TILE(TurnedPatchProductLarge_##suffix, T, A, TurnedPatches<T>, Large)

TENON_GPU_SMALL_TILES(f32, float, float)
TENON_GPU_SMALL_TILES(f64, double, double)
TENON_GPU_SMALL_TILES(f16, Half, float)
TENON_GPU_SMALL_TILES(bf16, Bfloat16, float)
TENON_GPU_SMALL_TILES(u32, uint32_t, uint32_t)
TENON_GPU_SMALL_TILES(u64, uint64_t, uint64_t)
TENON_GPU_FLAT_TILES(f32, float, float)
TENON_GPU_FLAT_TILES(f64, double, double)
TENON_GPU_FLAT_TILES(f16, Half, float)
TENON_GPU_FLAT_TILES(bf16, Bfloat16, float)
TENON_GPU_PATCH_TILES(f32, float, float)
TENON_GPU_PATCH_TILES(f64, double, double)
TENON_GPU_PATCH_TILES(f16, Half, float)
TENON_GPU_PATCH_TILES(bf16, Bfloat16, float)
TENON_GPU_PATCH_TILES(u32, uint32_t, uint32_t)
TENON_GPU_LARGE_TILES(f32, float, float)
TENON_GPU_LARGE_TILES(f16, Half, float)
TENON_GPU_LARGE_TILES(bf16, Bfloat16, float)

}  // namespace tenon::gpu
