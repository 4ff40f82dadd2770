// SPDX-License-Identifier: Apache-2.0
#include "model/cycle_model.h"

#include <algorithm>
#include <cmath>

namespace tenon::tpu_sim {
namespace {

// Beyond this many steps a pipeline's ends do not matter, and its sum is taken without walking it.
constexpr int64_t kMostSteps = INT64_C(1) << 18;
// The largest count given: sums of a few stay within 64 bits.
constexpr double kMostCycles = 1e18;

int64_t Clamp(double cycles) { return static_cast<int64_t>(std::clamp(std::ceil(cycles), 0.0, kMostCycles)); }

int64_t Ceil(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

double TransferCycles(const Machine& machine, double bytes, double bandwidth) {
  return bandwidth > 0 ? bytes * machine.clock / bandwidth : 0;
}

// Computing and transferring side by side over one channel, in order. The transfer for the next step may begin when this
// step does, or, without a second buffer, when it is done; what a step writes goes out when the step is done.
class Pipeline {
 public:
  explicit Pipeline(const Machine& machine) : machine_(machine) {}

  void Step(const Cycles& work, double read_bytes, double written_bytes) {
    if (!machine_.double_buffered) Write();
    channel_free_ = std::max(channel_free_, machine_.double_buffered ? begin_ : done_) + Transfer(read_bytes);
    begin_ = std::max(done_, channel_free_);
    Write();  // of the step before
    stall_ += begin_ - done_;
    done_ = begin_ + static_cast<double>(work.total());
    cycles_ += work;
    written_bytes_ = written_bytes;
  }
  Cycles Finish() {
    Write();
    cycles_.stall += Clamp(stall_ + std::max(channel_free_ - done_, 0.0));
    return cycles_;
  }

 private:
  double Transfer(double bytes) const { return TransferCycles(machine_, bytes, machine_.memory_bandwidth); }
  void Write() {
    if (written_bytes_ > 0) channel_free_ = std::max(channel_free_, done_) + Transfer(written_bytes_);
    written_bytes_ = 0;
  }

  const Machine& machine_;
  Cycles cycles_;
  double channel_free_ = 0, begin_ = 0, done_ = 0, stall_ = 0, written_bytes_ = 0;
};

// How a product goes through the machine.
struct Folds {
  Folds(const Machine& machine, const Product& p)
      : row_folds(Ceil(p.k, machine.rows)), column_folds(Ceil(p.n, machine.columns)) {
    const int64_t half = std::max<int64_t>(machine.buffer_bytes / 2, 1);
    const int64_t share = machine.double_buffered ? std::max<int64_t>(half / 2, 1) : half;
    block = std::clamp<int64_t>(share / (machine.columns * 4), 1, p.m);
    blocks = Ceil(p.m, block);
    const double left = p.left_bytes > 0 ? static_cast<double>(p.left_bytes)
                                         : static_cast<double>(p.m) * static_cast<double>(p.k) * static_cast<double>(p.input_bytes);
    const double right = static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(p.input_bytes);
    left_fold_bytes = left / static_cast<double>(blocks) / static_cast<double>(row_folds);
    right_fold_bytes = right / static_cast<double>(row_folds) / static_cast<double>(column_folds);
    output_bytes = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.output_bytes) /
                   static_cast<double>(blocks) / static_cast<double>(column_folds);
    left_stays = left / static_cast<double>(blocks) <= static_cast<double>(share);
    right_stays = right <= static_cast<double>(share);
  }
  int64_t row_folds, column_folds;
  int64_t block, blocks;  // rows of the left matrix whose sums stay on chip, and how many such blocks
  double left_fold_bytes, right_fold_bytes, output_bytes;
  bool left_stays, right_stays;
};

// One fold's computing, all passes. `first` and `last` are those of the whole product.
Cycles FoldCycles(const Machine& machine, int64_t m, int64_t passes, bool first, bool last) {
  const int64_t fill = machine.rows + machine.columns - 2;
  Cycles c;
  if (machine.weights == Weights::kSerial) {
    c.load = passes * machine.rows;
    c.matrix = passes * (m + fill);
    return c;
  }
  const int64_t exposed = std::max<int64_t>(machine.rows - m, 0);  // of shifting weights in behind m rows
  c.load = (passes - 1) * exposed + (first ? machine.rows : exposed);
  c.matrix = passes * m + (last ? fill : 0);
  return c;
}

// The same for very many folds: the longer of computing and transferring, and the first fetch.
Cycles ManyFolds(const Machine& machine, const Product& p, const Folds& f) {
  const double folds = static_cast<double>(f.blocks) * static_cast<double>(f.row_folds) * static_cast<double>(f.column_folds);
  const Cycles one = FoldCycles(machine, f.block, p.passes, false, false);
  const double passes_left = f.left_stays ? 1.0 : static_cast<double>(f.column_folds);
  const double passes_right = f.right_stays ? 1.0 : static_cast<double>(f.blocks);
  const double bytes =
      f.left_fold_bytes * static_cast<double>(f.blocks) * static_cast<double>(f.row_folds) * passes_left +
      f.right_fold_bytes * static_cast<double>(f.row_folds) * static_cast<double>(f.column_folds) * passes_right +
      f.output_bytes * static_cast<double>(f.blocks) * static_cast<double>(f.column_folds);
  const double transfer = TransferCycles(machine, bytes, machine.memory_bandwidth);
  const double busy = static_cast<double>(one.total()) * folds;
  Cycles c;
  c.matrix = Clamp(static_cast<double>(one.matrix) * folds);
  c.load = Clamp(static_cast<double>(one.load) * folds);
  c.stall = Clamp(machine.double_buffered ? std::max(transfer - busy, 0.0) : transfer);
  return c;
}

int64_t OutSize(int64_t in, int64_t filter, int64_t stride) { return in < filter ? 0 : Ceil(in - filter + 1, stride); }

}  // namespace

Cycles& Cycles::operator+=(const Cycles& other) {
  matrix += other.matrix;
  vector += other.vector;
  load += other.load;
  stall += other.stall;
  return *this;
}

Product AsProduct(const Convolution& c) {
  Product p;
  p.m = c.batch * OutSize(c.height, c.filter_height, c.stride_height) * OutSize(c.width, c.filter_width, c.stride_width);
  p.n = c.filters;
  p.k = c.filter_height * c.filter_width * c.channels;
  p.input_bytes = c.input_bytes;
  p.output_bytes = c.output_bytes;
  p.passes = c.passes;
  p.left_bytes = std::min(c.batch * c.height * c.width * c.channels, p.m * p.k) * c.input_bytes;
  return p;
}

Cycles MatrixCycles(const Machine& machine, const Product& p) {
  if (p.m <= 0 || p.n <= 0) return {};
  if (p.k <= 0) return MemoryCycles(machine, 0, p.m * p.n * p.output_bytes);
  const Folds f(machine, p);
  if (static_cast<double>(f.blocks) * static_cast<double>(f.row_folds) * static_cast<double>(f.column_folds) >
      static_cast<double>(kMostSteps)) {
    return ManyFolds(machine, p, f);
  }
  Pipeline pipeline(machine);
  for (int64_t b = 0; b < f.blocks; ++b) {
    const int64_t rows = std::min(f.block, p.m - b * f.block);
    for (int64_t c = 0; c < f.column_folds; ++c) {
      for (int64_t r = 0; r < f.row_folds; ++r) {
        const bool first = b == 0 && c == 0 && r == 0;
        const bool complete = r == f.row_folds - 1;
        const bool last = b == f.blocks - 1 && c == f.column_folds - 1 && complete;
        pipeline.Step(FoldCycles(machine, rows, p.passes, first, last),
                      (c == 0 || !f.left_stays ? f.left_fold_bytes : 0) + (b == 0 || !f.right_stays ? f.right_fold_bytes : 0),
                      complete ? f.output_bytes : 0);
      }
    }
  }
  return pipeline.Finish();
}

Cycles ConvolutionCycles(const Machine& machine, const Convolution& convolution) {
  return MatrixCycles(machine, AsProduct(convolution));
}

Cycles VectorCycles(const Machine& machine, int64_t operations, int64_t read_bytes, int64_t written_bytes) {
  if (operations <= 0 && read_bytes <= 0 && written_bytes <= 0) return {};
  // Tiles small enough for the buffer, and some at least, so that transfers overlap; none below a page.
  constexpr int64_t kLeastTiles = 16, kLeastTile = 4096;
  const int64_t bytes = std::max<int64_t>(read_bytes + written_bytes, 1);
  const int64_t share = std::max<int64_t>(machine.buffer_bytes / (machine.double_buffered ? 2 : 1), 1);
  const int64_t tiles = std::min(kMostSteps, std::max(Ceil(bytes, share), std::min(kLeastTiles, Ceil(bytes, kLeastTile))));
  const int64_t cycles = Ceil(std::max<int64_t>(operations, 0), machine.vector_lanes);
  Pipeline pipeline(machine);
  for (int64_t i = 0; i < tiles; ++i) {
    Cycles work;
    work.vector = cycles / tiles + (i < cycles % tiles ? 1 : 0);
    pipeline.Step(work, static_cast<double>(read_bytes) / static_cast<double>(tiles),
                  static_cast<double>(written_bytes) / static_cast<double>(tiles));
  }
  return pipeline.Finish();
}

Cycles MemoryCycles(const Machine& machine, int64_t read_bytes, int64_t written_bytes) {
  Cycles c;
  c.load = Clamp(TransferCycles(machine, static_cast<double>(read_bytes) + static_cast<double>(written_bytes),
                                machine.memory_bandwidth));
  return c;
}

Cycles HostCopyCycles(const Machine& machine, int64_t bytes) {
  Cycles c;
  c.load = machine.transfer_latency + Clamp(TransferCycles(machine, static_cast<double>(bytes), machine.host_bandwidth));
  return c;
}

Cycles InterconnectCycles(const Machine& machine, int64_t bytes) {
  Cycles c;
  c.load = machine.transfer_latency + Clamp(TransferCycles(machine, static_cast<double>(bytes), machine.interconnect_bandwidth));
  return c;
}

double PeakOperations(const Machine& machine) {
  return 2.0 * static_cast<double>(machine.rows) * static_cast<double>(machine.columns) * machine.clock;
}

double RidgePoint(const Machine& machine) {
  return machine.memory_bandwidth > 0 ? PeakOperations(machine) / machine.memory_bandwidth : 0;
}

}  // namespace tenon::tpu_sim
