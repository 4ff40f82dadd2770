// SPDX-License-Identifier: Apache-2.0
// Matrix products, batches of them, and convolutions as products of patches: c[row, column] = sum over depth of
// left[row, depth] * right[depth, column].
//
//   Product_<type>             left is a matrix of any strides
//   PatchProduct_<type>        left's rows are patches of an image: what one window sees (rows: windows; depth: cells)
//   TurnedPatchProduct_<type>  the same, turned (rows: cells; depth: windows)
//   ...Large_<type>            in larger tiles, of float and the halves
//   ProductFlat_<type>         in tiles of few rows, of floats
//   ProductSum_<type>          adds the parts of a product whose depth was split
//
// Halves are summed as floats and rounded once; integers (u32, u64) wrap. Sums go through the depth in its order, parts
// in theirs: the same bits every time.
#ifndef TENON_DEVICES_GPU_CODE_PRODUCT_H_
#define TENON_DEVICES_GPU_CODE_PRODUCT_H_

#include <cstdint>

namespace tenon::gpu {

inline constexpr uint32_t kProductThreads = 256;
struct ProductTile {
  int rows, columns;
  int depth;           // of one step
  int column_threads;  // of a row of threads, each of which has 4 by 4 sums or several times so many
};
inline constexpr ProductTile kSmallTile = {64, 64, 16, 16}, kLargeTile = {128, 128, 8, 16},
                             kFlatTile = {16, 256, 8, 64};
inline constexpr int64_t kDeepestStep = 16;  // parts of a split depth are whole steps of any tile

// Where element i stands along one direction: i * step; or, in pieces of `inner`, (i / inner) * outer_step + (i %
// inner) * step.
struct Steps {
  int64_t step;
  int64_t inner;  // 0: all one piece
  int64_t outer_step;
};

// An operand: lines are the rows of left, the columns of right.
struct MatrixView {
  Steps line, depth;
  bool along_depth;  // where neighbours in memory are: threads next to each other read them
  bool quads;        // four neighbours, from any multiple of four, can be loaded at once
};

// An operand whose lines are patches of images. A cell of a patch is a tap (ky, kx) of the window and a channel; with
// pixel (py, px) of the plane of windows it stands in the image at row (py * y_scale + y_shift + ky * y_tap) /
// y_divide, if that is whole and inside, else is 0; so for columns.
struct PatchView {
  bool along_cells;  // neighbours in memory are channels; else pixels
  bool quads;
  int32_t height, width;  // of the image
  int64_t image_step, row_step, column_step, channel_step;
  int64_t plane, plane_width;  // windows of an image, and of one row of them
  int32_t y_scale, y_shift, y_tap, y_divide;
  int32_t x_scale, x_shift, x_tap, x_divide;
  int64_t channels, window_width;
};

// Products of one shape; `inner` of them in a row with steps of their own, rows by `rank` outer dims, slowest first.
inline constexpr int kMostBatchDims = 8;
struct ProductBatches {
  int64_t count = 1, inner = 1;
  int64_t left_step = 0, right_step = 0, out_step = 0;
  int32_t rank = 0;
  int64_t dims[kMostBatchDims] = {};
  int64_t left_strides[kMostBatchDims] = {}, right_strides[kMostBatchDims] = {};
};

// What is done with a sum before it is rounded. bias: one for each column (of_rows: for each row), or NULL.
struct ProductEpilogue {
  const void* bias;
  bool relu;
  bool of_rows;
};

struct ProductParams {
  const void* left;
  const void* right;
  void* out;
  void* parts;  // sums [part, batch, row, column] where the depth is split or they are the result; else NULL
  int64_t rows, columns, depth;
  int64_t part_depth;  // a multiple of the steps
  int64_t parts_count;
  int64_t batch_blocks;  // of the grid; each takes several where there are more
  MatrixView left_view, right_view;
  PatchView patches;
  Steps out_row;
  int64_t out_column_step;
  bool out_quads;      // four columns can be stored at once
  bool out_along_rows; // neighbours in memory are rows
  ProductBatches batches;
  ProductEpilogue epilogue;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_PRODUCT_H_
