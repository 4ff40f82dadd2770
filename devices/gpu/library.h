// SPDX-License-Identifier: Apache-2.0
// What the vendor's libraries compute in place of our kernels, where they are installed: products of matrices
// (cuBLASLt, hipBLAS) and convolutions (cuDNN, MIOpen).
//
// A plan describes its problem and asks; what the library does not take, or takes only in a way whose bits are not the
// same each time, is left to our kernels, and so is everything where there is no library; the log says once what was
// found. Option `libraries`: off, or where to look. Threads: any. The GPU is the calling thread's (Card::Activate).
#ifndef TENON_DEVICES_GPU_LIBRARY_H_
#define TENON_DEVICES_GPU_LIBRARY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "runtime.h"
#include "tenon/dtype.h"
#include "tenon/kernel.h"

namespace tenon::gpu {

// out[rows, columns] = left[rows, depth] * right[depth, columns], each a row-major matrix whose lines are `step`
// elements apart; batches of them, `batch` elements apart (0: the same matrix again).
struct MatrixProduct {
  struct Matrix {
    bool turned = false;  // it lies in memory the other way round: left as [depth, rows], right as [columns, depth]
    int64_t step = 0;
    int64_t batch = 0;
  };
  uint32_t dtype = TENON_DT_FLOAT;  // of all
  bool sums = false;                // out is of float32, of halves
  uint32_t precision = TENON_PRECISION_STRICT;
  int64_t rows = 0, columns = 0, depth = 0, batches = 1;
  Matrix left, right, out;  // out is not turned
  bool bias = false;        // one for each column is added
  bool relu = false;
};

// A convolution or one of its gradients. Images are NHWC, or NCHW; the filter is [filters, height, width, channels of a
// group], or [filters, channels of a group, height, width].
struct Convolution {
  enum class Result { kForward, kGradientOfInput, kGradientOfFilter };
  struct Direction {
    int64_t input = 0, output = 0, size = 1, stride = 1, dilation = 1;
    int64_t before = 0;  // cells of padding; behind the image there is as much as the output needs
  };
  Result result = Result::kForward;
  uint32_t dtype = TENON_DT_FLOAT;
  bool sums = false;  // the gradient of a filter is of float32, of halves
  uint32_t precision = TENON_PRECISION_STRICT;
  bool channels_first = false;
  int64_t batch = 0, channels = 0, filters = 0, groups = 1;
  Direction rows, columns;

  // Equal for equal problems.
  std::array<int64_t, 21> Key() const {
    return {static_cast<int64_t>(result),
            dtype,
            sums,
            precision,
            channels_first,
            batch,
            channels,
            filters,
            groups,
            rows.input,
            rows.output,
            rows.size,
            rows.stride,
            rows.dilation,
            rows.before,
            columns.input,
            columns.output,
            columns.size,
            columns.stride,
            columns.dilation,
            columns.before};
  }
};

using Four = std::array<int64_t, 4>;
// The strides of an image or filter of dims [n, c, h, w], stored as [n, h, w, c] or as they are named.
inline Four StridesOf(const Four& dims, bool channels_first) {
  const auto [n, c, h, w] = dims;
  return channels_first ? Four{c * h * w, h * w, w, 1} : Four{h * w * c, 1, w * c, c};
}

// left and right: of a product, its operands; of a convolution, input and filter; of its gradient of the input, the
// result's gradient and the filter; of the filter, the input and the result's gradient.
struct LibraryOperands {
  const void* left;
  const void* right;
  void* out;
  const void* bias;
  void* workspace;  // 256-byte aligned
};

// A problem that a library has taken. Launched by several threads at once, each on its own stream; may be captured.
class LibraryWork {
 public:
  virtual ~LibraryWork() = default;
  virtual Outcome Launch(const LibraryOperands& operands, Stream stream) const = 0;
  int64_t workspace_bytes() const { return workspace_bytes_; }
  // What all operands must be aligned to, in bytes.
  int64_t alignment() const { return alignment_; }
  // Of a product with a bias or a rectifier: whether it does these too, or the sums alone.
  bool has_end() const { return has_end_; }

 protected:
  int64_t workspace_bytes_ = 0, alignment_ = 16;
  bool has_end_ = true;
};

// The libraries of one GPU. NULL: not taken.
class Library {
 public:
  virtual ~Library() = default;
  virtual std::unique_ptr<LibraryWork> Take(const MatrixProduct& product) = 0;
  virtual std::unique_ptr<LibraryWork> Take(const Convolution& convolution) = 0;
};

// The vendor's, defined once by each plugin; NULL where there are none.
std::unique_ptr<Library> MakeLibrary(const Options& options);

// Where to look for a file: in the option's folder alone; for "auto" by the loader's rules, then in `folder`.
inline std::vector<std::string> PlacesOf(const Options& options, const std::string& file, const std::string& folder) {
  if (options.libraries != "auto") return {options.libraries + "/" + file};
  return {file, folder + "/" + file};
}

// Workspace that a library may ask for.
inline constexpr int64_t kMostLibraryWorkspace = INT64_C(256) << 20;

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_LIBRARY_H_
