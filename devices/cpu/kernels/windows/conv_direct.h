// SPDX-License-Identifier: Apache-2.0
// Convolutions in float of images of few channels, channels last, without copies of patches: what stands along a row of
// a window stands side by side in the image, so that a run of it times the filter's rows is summed in registers
// (conv_tile.h).
//
// A vector goes over the channels of the result. Where those are few, some neighbouring pixels are one group: a window
// of the group is wider, its filter has a column for each channel of each pixel, and zeros where a pixel's own window
// does not reach. The gradient of the filter is summed for the group's filter, too, and folded. In the gradient of the
// input a vector goes over a row of the window, and each pixel's is added where its window lies.
//
// A zero that is multiplied must not make NaN of an infinity that a pixel does not see: where there are numbers that
// are not finite, rows are done without groups, and the gradient of the filter has groups only where they fill a row.
//
// Rows are padded with zeros in a copy, where a window reaches beyond the sides; rows above and below the image are
// left out of the sums. What is summed, and in which order, depends on the shapes alone: the gradient of a filter is
// the sum of those of so many chunks of images, added in their order.
#ifndef TENON_DEVICES_CPU_KERNELS_WINDOWS_CONV_DIRECT_H_
#define TENON_DEVICES_CPU_KERNELS_WINDOWS_CONV_DIRECT_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "kernels/windows/window.h"

namespace tenon::cpu {

// A convolution of images, one group, channels last. Filters are [height, width, x.channels, y.channels].
struct DirectShape {
  Image x, y;
  WindowDim rows, columns;
};

// How a convolution is cut into groups, runs and registers.
class DirectWindows {
 public:
  // Whether it is one that is done here: where oneDNN and Eigen take longer (README.md).
  static bool Take(const DirectShape& shape);
  enum class Groups { kAny, kOfOneSize, kNone };
  DirectWindows(const DirectShape& shape, Groups allowed);

  // Columns are done in blocks of one or two registers. function(registers, first lane, its place in a group's filter).
  template <class Function>
  void ForEachBlock(Function&& function) const;
  // function(place in the group's filter, place in the filter, channels) for each run of weights that stand side by
  // side in both.
  template <class Function>
  void ForEachWeights(Function&& function) const;
  // Floats of a group's filter, [rows, steps, length, lanes] a block.
  int64_t Runs() const { return rows.size * steps * length; }
  int64_t FilterFloats() const;
  // Products of registers.
  double Work() const {
    return static_cast<double>(y.batch * y.height * groups) * static_cast<double>(Runs() * vectors);
  }

  // Rows of the image that rows [first, last) of the result see.
  std::pair<int64_t, int64_t> Seen(int64_t first, int64_t last) const;
  // The most rows of the result of which what is seen fits into a copy; beside: bytes that each needs there, too.
  int64_t RowsOfCopy(int64_t beside) const;
  int64_t BytesOfCopy(int64_t result_rows) const;
  // Rows [begin, end) of an image, padded in `memory` where they have to be; each `line` floats.
  const float* Lines(const float* image, int64_t begin, int64_t end, float* memory) const;

  Image x, y;
  WindowDim rows, columns;
  int64_t group = 1, groups = 1;   // neighbouring pixels of a group, and groups of a row
  int64_t steps = 1, length = 0;   // runs of a row of the window, and their floats
  int64_t lanes = 0, vectors = 0;  // floats of a group's result, and registers for them
  int64_t line = 0;
  bool padded = false;

 private:
  // Pixels of the image along a row that so many neighbours see.
  int64_t Reach(int64_t pixels) const { return columns.size + (pixels - 1) * columns.stride; }
  int64_t BestGroup(Groups allowed) const;
};

// y = x filter, in units of some rows of an image.
class DirectForward {
 public:
  // Asks for workspace. Nothing: not a shape for this.
  static std::optional<DirectForward> Make(const DirectShape& shape, sdk::PrepareContext& c);
  void Run(sdk::RunContext c, const float* x, const float* filter, float* y) const;

 private:
  struct Way {
    DirectWindows windows;
    int64_t filter;  // where it is in the workspace
  };
  DirectForward(const DirectShape& shape, sdk::PrepareContext& c);
  void Unit(sdk::RunContext c, int64_t n, int64_t from, const float* x, float* memory, float* y) const;

  Way grouped_, single_;  // single_: for what is not finite
  int64_t band_ = 1, bands_ = 1, tasks_ = 1, copies_ = 0, copy_bytes_ = 0;
  double cost_ = 0;
};

// The gradient of the input, row by row.
class DirectInputGradient {
 public:
  static std::optional<DirectInputGradient> Make(const DirectShape& shape, sdk::PrepareContext& c);
  void Run(sdk::RunContext c, const float* dy, const float* filter, float* dx) const;

 private:
  DirectInputGradient(const DirectShape& shape, sdk::PrepareContext& c);
  template <class Function>
  void ForEachBlock(Function&& function) const;
  void Pack(const float* filter, float* packed) const;
  // dy: of the row's image. line: a row of the image, padded.
  void Row(int64_t row, const float* dy, const float* packed, float* line, float* dx) const;

  DirectWindows v_;
  int64_t registers_ = 0;  // of a run
  int64_t tasks_ = 1, packed_ = 0, lines_ = 0, line_bytes_ = 0;
  double cost_ = 0;
};

// The gradient of the filter.
class DirectFilterGradient {
 public:
  static std::optional<DirectFilterGradient> Make(const DirectShape& shape, sdk::PrepareContext& c);
  void Run(sdk::RunContext c, const float* x, const float* dy, float* out) const;

 private:
  DirectFilterGradient(const DirectShape& shape, sdk::PrepareContext& c);
  void Unit(int64_t n, int64_t from, const float* x, const float* dy, float* memory) const;
  void Tiles(int64_t ky, std::pair<int64_t, int64_t> rows, const float* lines, const float* dy, float* sums) const;
  const float* Groups(const float* dy, int64_t rows, const float* end, float* to) const;

  DirectWindows v_;
  int64_t group_floats_ = 0, dy_line_ = 0;  // as they are read
  int64_t band_ = 1, bands_ = 1, chunks_ = 1, copy_bytes_ = 0, chunk_bytes_ = 0, workspace_ = 0;
  bool dy_copied_ = false;
  double cost_ = 0;
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_WINDOWS_CONV_DIRECT_H_
