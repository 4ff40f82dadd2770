// SPDX-License-Identifier: Apache-2.0
// The cycle model: how long a piece of work takes on a TPU-style accelerator, and where each cycle went. Pure
// functions.
//
// The machine: a weight-stationary systolic matrix unit of rows x columns cells, a vector unit, an on-chip buffer, and
// off-chip memory behind a bandwidth. A product (m,k)x(k,n) is cut into folds of rows x columns weights. A fold shifts
// its weights in (`rows` cycles), streams m rows of the left matrix through, one a cycle, and drains after rows +
// columns - 2 more. A partly filled fold costs as much as a full one: the array is physical.
//
//   kSerial    one fold after the other: 2 rows + columns + m - 2 cycles each.
//   kShadowed  the weights of the next fold shift in behind those in use, and its rows follow without a gap, as on the
//              TPU: a fold costs max(m, rows), filling and draining is paid once.
//
// Transfers go in steps through the on-chip buffer. With double buffering the transfer for a step runs while the step
// before it computes. Sums of one block of rows stay on chip until they are complete. A left matrix, or all weights,
// that fit half the buffer are fetched once; else once for each pass over them.
//
// Every cycle is counted once: matrix (rows stream, the array fills or drains), vector, load (weights shift in and the
// array computes nothing; also the time of a plain copy), stall (everything waits for off-chip memory).
#ifndef TENON_DEVICES_TPU_SIM_MODEL_CYCLE_MODEL_H_
#define TENON_DEVICES_TPU_SIM_MODEL_CYCLE_MODEL_H_

#include <cstdint>

namespace tenon::tpu_sim {

enum class Weights { kSerial, kShadowed };

// Of an array, rows and columns each.
inline constexpr int64_t kMostCells = 4096;

struct Machine {
  int64_t rows = 128;
  int64_t columns = 128;
  double clock = 700e6;  // cycles a second
  int64_t vector_lanes = 1024;  // operations a cycle
  int64_t buffer_bytes = INT64_C(16) << 20;
  double memory_bandwidth = 350e9;  // bytes a second; 0: transfers take no time
  double host_bandwidth = 16e9;
  double interconnect_bandwidth = 62.5e9;
  int64_t transfer_latency = 700;  // cycles before the first byte of a copy to or from the host or another device
  Weights weights = Weights::kShadowed;
  bool double_buffered = true;
};

struct Cycles {
  int64_t matrix = 0;
  int64_t vector = 0;
  int64_t load = 0;
  int64_t stall = 0;
  int64_t total() const { return matrix + vector + load + stall; }
  Cycles& operator+=(const Cycles& other);
  bool operator==(const Cycles& other) const = default;
};

// A product (m,k)x(k,n). Bytes are those of one element off chip; the sums are 4 bytes on chip.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  int64_t input_bytes = 2;
  int64_t output_bytes = 4;
  int64_t passes = 1;      // how often each fold is computed: 1 for bfloat16, kFloatPasses for float32
  int64_t left_bytes = 0;  // of the whole left matrix where it is less than m k elements (the image of a convolution)
};
// Passes of a bfloat16 multiplier for a float32 product: a factor is three bfloat16 parts, and 6 of the 9 products of
// parts are not below the last bit.
inline constexpr int64_t kFloatPasses = 6;

struct Convolution {
  int64_t batch = 1;
  int64_t height = 0, width = 0, channels = 0;  // of the image, padding included
  int64_t filter_height = 0, filter_width = 0, filters = 0;
  int64_t stride_height = 1, stride_width = 1;
  int64_t input_bytes = 2;
  int64_t output_bytes = 4;
  int64_t passes = 1;
};

// The convolution as a product over patches (im2col), whose image is fetched, not its patches.
Product AsProduct(const Convolution& convolution);

Cycles MatrixCycles(const Machine& machine, const Product& product);
Cycles ConvolutionCycles(const Machine& machine, const Convolution& convolution);
// `operations` on the vector unit over data that is read once and written once.
Cycles VectorCycles(const Machine& machine, int64_t operations, int64_t read_bytes, int64_t written_bytes);
// A copy or fill within device memory: what it reads and writes.
Cycles MemoryCycles(const Machine& machine, int64_t read_bytes, int64_t written_bytes);
Cycles HostCopyCycles(const Machine& machine, int64_t bytes);
Cycles InterconnectCycles(const Machine& machine, int64_t bytes);

// ---- The roofline ----

// Operations a second at most; a multiply-add is two.
double PeakOperations(const Machine& machine);
// Operations for each byte fetched from which on the peak bounds, not the bandwidth.
double RidgePoint(const Machine& machine);

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_MODEL_CYCLE_MODEL_H_
