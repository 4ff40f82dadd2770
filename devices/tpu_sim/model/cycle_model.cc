// SPDX-License-Identifier: Apache-2.0
#include "model/cycle_model.h"

#include <algorithm>
#include <cmath>

namespace tenon::tpu_sim {
namespace {

// So many steps are walked, alike ones once; what is left then goes on as the last of them did.
constexpr int64_t kMostSteps = INT64_C(1) << 18;
// The largest count given: sums of a few stay within 64 bits.
constexpr double kMostCycles = 1e18;

int64_t Clamp(double cycles) { return static_cast<int64_t>(std::clamp(std::ceil(cycles), 0.0, kMostCycles)); }

int64_t Ceil(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

double TransferCycles(const Machine& machine, double bytes, double bandwidth) {
  return bandwidth > 0 ? bytes * machine.clock / bandwidth : 0;
}

// Computing and transferring side by side over one channel, in order. The transfer for the next step may begin when
// this step does, or, without a second buffer, when it is done; what a step writes goes out when the step is done.
// Times are kept from the end of the latest step on, so that a stretch of steps which leaves things as it found them is
// known to go on so.
class Pipeline {
 public:
  explicit Pipeline(const Machine& machine) : machine_(machine) {}

  void Step(const Cycles& work, double read_bytes, double written_bytes) {
    if (!machine_.double_buffered) Write();
    channel_free_ = std::max(channel_free_, machine_.double_buffered ? begin_ : 0) + Transfer(read_bytes);
    const double waited = std::max(channel_free_, 0.0);
    Write();  // of the step before
    const auto computed = static_cast<double>(work.total());
    channel_free_ -= waited + computed;
    begin_ = -computed;
    written_bytes_ = written_bytes;
    matrix_ += static_cast<double>(work.matrix);
    vector_ += static_cast<double>(work.vector);
    load_ += static_cast<double>(work.load);
    stall_ += waited;
    ++steps_;
  }
  // `steps` makes the same steps each time. It is called until a time has left the channel as it found it, which comes
  // after few: from one time to the next the channel is as far ahead, or catches up by as much, until it meets an end.
  template <typename Steps>
  void Repeat(int64_t times, const Steps& steps) {
    for (int64_t i = 0; i < times; ++i) {
      const Pipeline before = *this;
      steps();
      const bool settled = std::abs(channel_free_ - before.channel_free_) <= 1e-9 * (1 + std::abs(channel_free_)) &&
                           begin_ == before.begin_ && written_bytes_ == before.written_bytes_;
      if (!settled && (i == 0 || steps_ < kMostSteps)) continue;
      const auto rest = static_cast<double>(times - i - 1);
      matrix_ += rest * (matrix_ - before.matrix_);
      vector_ += rest * (vector_ - before.vector_);
      load_ += rest * (load_ - before.load_);
      stall_ += rest * (stall_ - before.stall_);
      return;
    }
  }
  Cycles Finish() {
    Write();
    Cycles cycles;
    cycles.matrix = Clamp(matrix_);
    cycles.vector = Clamp(vector_);
    cycles.load = Clamp(load_);
    cycles.stall = Clamp(stall_ + std::max(channel_free_, 0.0));
    return cycles;
  }

 private:
  double Transfer(double bytes) const { return TransferCycles(machine_, bytes, machine_.memory_bandwidth); }
  void Write() {
    if (written_bytes_ > 0) channel_free_ = std::max(channel_free_, 0.0) + Transfer(written_bytes_);
    written_bytes_ = 0;
  }

  const Machine& machine_;
  double matrix_ = 0, vector_ = 0, load_ = 0, stall_ = 0;
  double channel_free_ = 0, begin_ = 0;  // of the latest step, both from its end on
  double written_bytes_ = 0;
  int64_t steps_ = 0;
};

// How a product goes through the machine.
struct Folds {
  Folds(const Machine& machine, const Product& p)
      : row_folds(Ceil(p.k, machine.rows)), column_folds(Ceil(p.n, machine.columns)) {
    const int64_t half = std::max<int64_t>(machine.buffer_bytes / 2, 1);
    const int64_t share = machine.double_buffered ? std::max<int64_t>(half / 2, 1) : half;
    block = std::clamp<int64_t>(share / (machine.columns * 4), 1, p.m);
    blocks = Ceil(p.m, block);
    const double left = p.left_bytes > 0
                            ? static_cast<double>(p.left_bytes)
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

// A product on its way through: blocks of rows, in each the columns' folds, in each of those the rows' folds.
class Walk {
 public:
  Walk(const Machine& machine, const Product& product)
      : machine_(machine), p_(product), f_(machine, product), pipeline_(machine) {}

  Cycles Run() {
    if (f_.blocks == 1) {
      Block(p_.m, {.fetches_right = true, .first = true, .last = true});
      return pipeline_.Finish();
    }
    Block(f_.block, {.fetches_right = true, .first = true});
    pipeline_.Repeat(f_.blocks - 2, [&] { Block(f_.block, {.fetches_right = !f_.right_stays}); });
    Block(p_.m - (f_.blocks - 1) * f_.block, {.fetches_right = !f_.right_stays, .last = true});
    return pipeline_.Finish();
  }

 private:
  struct Part {
    bool fetches_left = true, fetches_right = true;
    bool first = false, last = false;  // whether the product begins or ends with it
  };

  void Block(int64_t rows, const Part& part) {
    const bool one = f_.column_folds == 1;
    Column(rows, {true, part.fetches_right, part.first, part.last && one});
    pipeline_.Repeat(f_.column_folds - 2, [&] { Column(rows, {!f_.left_stays, part.fetches_right, false, false}); });
    if (!one) Column(rows, {!f_.left_stays, part.fetches_right, false, part.last});
  }
  void Column(int64_t rows, const Part& part) {
    const bool one = f_.row_folds == 1;
    Fold(rows, {part.fetches_left, part.fetches_right, part.first, part.last && one}, one);
    pipeline_.Repeat(f_.row_folds - 2, [&] {
      Fold(rows, {part.fetches_left, part.fetches_right, false, false}, false);
    });
    if (!one) Fold(rows, {part.fetches_left, part.fetches_right, false, part.last}, true);
  }
  // complete: the sums are.
  void Fold(int64_t rows, const Part& part, bool complete) {
    pipeline_.Step(FoldCycles(machine_, rows, p_.passes, part.first, part.last),
                   (part.fetches_left ? f_.left_fold_bytes : 0) + (part.fetches_right ? f_.right_fold_bytes : 0),
                   complete ? f_.output_bytes : 0);
  }

  const Machine& machine_;
  const Product& p_;
  const Folds f_;
  Pipeline pipeline_;
};

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
  p.m =
      c.batch * OutSize(c.height, c.filter_height, c.stride_height) * OutSize(c.width, c.filter_width, c.stride_width);
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
  if (p.k <= 0) {
    Cycles zeros;
    zeros.load = Clamp(TransferCycles(
        machine, static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.output_bytes),
        machine.memory_bandwidth));
    return zeros;
  }
  return Walk(machine, p).Run();
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
  const int64_t tiles = std::max(Ceil(bytes, share), std::min(kLeastTiles, Ceil(bytes, kLeastTile)));
  const int64_t cycles = Ceil(std::max<int64_t>(operations, 0), machine.vector_lanes);
  Pipeline pipeline(machine);
  const auto tile = [&](int64_t computed) {
    Cycles work;
    work.vector = computed;
    pipeline.Step(work, static_cast<double>(read_bytes) / static_cast<double>(tiles),
                  static_cast<double>(written_bytes) / static_cast<double>(tiles));
  };
  pipeline.Repeat(cycles % tiles, [&] { tile(cycles / tiles + 1); });
  pipeline.Repeat(tiles - cycles % tiles, [&] { tile(cycles / tiles); });
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
  c.load =
      machine.transfer_latency + Clamp(TransferCycles(machine, static_cast<double>(bytes), machine.host_bandwidth));
  return c;
}

Cycles InterconnectCycles(const Machine& machine, int64_t bytes) {
  Cycles c;
  c.load = machine.transfer_latency +
           Clamp(TransferCycles(machine, static_cast<double>(bytes), machine.interconnect_bandwidth));
  return c;
}

double PeakOperations(const Machine& machine) {
  return 2.0 * static_cast<double>(machine.rows) * static_cast<double>(machine.columns) * machine.clock;
}

double RidgePoint(const Machine& machine) {
  return machine.memory_bandwidth > 0 ? PeakOperations(machine) / machine.memory_bandwidth : 0;
}

}  // namespace tenon::tpu_sim
