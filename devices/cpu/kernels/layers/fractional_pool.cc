// SPDX-License-Identifier: Apache-2.0
// FractionalMaxPool, FractionalAvgPool and their gradients: regions of rows and columns whose sizes are drawn, with
// TensorFlow's numbers.
#include <algorithm>
#include <cmath>

#include "kernels/windows/window.h"
#include "tenon/extras/kernel/elementwise.h"
#include "tenon/extras/kernel/random.h"
#include "tenon/extras/walk/pool.h"

namespace tenon::cpu {
namespace {

using FractionalTypes = Types<float, double, int32_t, int64_t>;

// Words of a generator one after the other.
class Words {
 public:
  explicit Words(sdk::Philox generator) : generator_(generator) {}
  uint32_t operator()() {
    if (at_ == 4) block_ = generator_.Next(), at_ = 0;
    return block_[at_++];
  }

 private:
  sdk::Philox generator_;
  sdk::Philox::Block block_ = {};
  size_t at_ = 4;
};

// Where the regions begin that cut `input` cells into `output`, and where the last one ends: begins[0, output]. The
// generator moves on by as many blocks as TensorFlow takes. Random: the regions that are one cell larger stand
// anywhere. Pseudo-random: region i begins at ceil(alpha (i + u)) for one u that leaves no region too large (Graham,
// "Fractional max-pooling", 2014).
void DrawRegions(int64_t input, int64_t output, bool pseudo_random, sdk::Philox& generator, int64_t* begins) {
  Words words(generator);
  const int64_t small = input / output;
  int64_t* sizes = begins + 1;
  if (pseudo_random) {
    const double alpha = static_cast<double>(input) / static_cast<double>(output);
    const double most = std::min(static_cast<double>(small + 2) / alpha - 1,
                                 static_cast<double>(input + 1 - small) / alpha - static_cast<double>(output - 1));
    const uint32_t high = words();
    const double u = sdk::UnitDouble(high, words()) * most;
    int64_t before = 1;
    for (int64_t i = 1; i <= output; ++i) {
      const int64_t next =
          i == output ? input + 1 : static_cast<int64_t>(std::ceil(alpha * (static_cast<double>(i) + u)));
      sizes[i - 1] = next - before;
      before = next;
    }
    generator.Skip(1);
  } else {
    for (int64_t i = 0; i < output; ++i) sizes[i] = small + (i < input % output ? 1 : 0);
    for (int64_t i = 0; i + 1 < output; ++i)
      std::swap(sizes[i], sizes[i + words() % static_cast<uint32_t>(output - i)]);
    generator.Skip(static_cast<uint64_t>(output + 3) / 4);
  }
  begins[0] = 0;
  for (int64_t i = 1; i <= output; ++i) begins[i] += begins[i - 1];
}

// Region i of a direction: the cells [begin, end).
struct Region {
  Region(const int64_t* begins, int64_t i, bool overlapping, int64_t input)
      : begin(begins[i]),
        end(std::min(input, begins[i + 1] > INT64_MAX - 1 ? input : begins[i + 1] + (overlapping ? 1 : 0))) {}
  int64_t size() const { return std::max<int64_t>(0, end - begin); }
  int64_t begin, end;
};

template <bool kMax>
struct FractionalPoolKernel {
  explicit FractionalPoolKernel(sdk::CreateContext& c)
      : pseudo_random(c.Bool("pseudo_random")),
        overlapping(c.Bool("overlapping")),
        repeats(c.Bool("deterministic")),
        stream(c) {
    if (!repeats && (c.Int("seed") != 0 || c.Int("seed2") != 0))
      c.Invalid("seed and seed2 must be 0 where deterministic is false");
  }
  struct Plan {
    Plan(const FractionalPoolKernel&, sdk::PrepareContext& c)
        : x(sdk::DimsOf(c.input(0)), false), y(sdk::DimsOf(c.output(0)), false) {
      const auto fits = [](int64_t in, int64_t out) { return out > 0 && out <= in && in <= INT32_MAX; };
      if (y.batch != x.batch || y.channels != x.channels || !fits(x.height, y.height) || !fits(x.width, y.width)) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "fractional pooling does not take shape ", sdk::DimsOf(c.input(0)), " to ",
                  sdk::DimsOf(c.output(0)));
      }
    }
    Image x, y;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    int64_t *rows = c.output<int64_t>(1), *columns = c.output<int64_t>(2);
    sdk::Philox generator =
        repeats ? sdk::Philox(stream.seed[0], stream.seed[1]) : stream.Reserve(plan.y.height + plan.y.width);
    DrawRegions(plan.x.height, plan.y.height, pseudo_random, generator, rows);
    DrawRegions(plan.x.width, plan.y.width, pseudo_random, generator, columns);
    FractionalTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const int64_t lanes = plan.x.channels;
      const double cost = static_cast<double>(plan.x.pixels() * lanes) / static_cast<double>(plan.y.height);
      c.ParallelFor(plan.y.batch * plan.y.height, cost, [&](int64_t begin, int64_t end) {
        sdk::CancelPoll poll(c);
        for (int64_t row = begin; row < end; ++row) {
          const Region ys(rows, row % plan.y.height, overlapping, plan.x.height);
          const T* image = c.input<T>(0) + row / plan.y.height * plan.x.pixels() * lanes;
          for (int64_t ox = 0; ox < plan.y.width; ++ox) {
            const Region xs(columns, ox, overlapping, plan.x.width);
            T* to = c.output<T>(0) + (row * plan.y.width + ox) * lanes;
            std::fill_n(to, lanes, kMax ? sdk::Lowest<T>() : T(0));
            for (int64_t y = ys.begin; y < ys.end; ++y) {
              for (int64_t x = xs.begin; x < xs.end; poll(lanes), ++x) {
                const T* from = image + (y * plan.x.width + x) * lanes;
                for (int64_t k = 0; k < lanes; ++k)
                  to[k] = kMax ? (from[k] > to[k] ? from[k] : to[k]) : sdk::AddOp()(to[k], from[k]);
              }
            }
            if (kMax) continue;
            const T cells = static_cast<T>(ys.size() * xs.size());
            for (int64_t k = 0; k < lanes; ++k) to[k] /= cells;
          }
        }
      });
    });
  }
  bool pseudo_random, overlapping, repeats;
  sdk::Stream stream;
};

// The regions that a gradient is given: at least `output` + 1 numbers that do not fall.
const int64_t* GivenRegions(const sdk::RunContext& c, int32_t input, int64_t output, bool exactly, const char* what) {
  const int64_t *begins = c.input<int64_t>(input), given = sdk::Count(c.input_view(input));
  if (exactly ? given != output + 1 : given < output + 1) {
    sdk::Fail(TENON_INVALID_ARGUMENT, what, " has ", given, " numbers; ", output, " regions need ", output + 1);
  }
  for (int64_t i = 0; i < given; ++i) {
    if (begins[i] < (i == 0 ? 0 : begins[i - 1])) {
      sdk::Fail(TENON_INVALID_ARGUMENT, what, "[", i, "] is ", begins[i],
                "; the numbers must not be negative, nor fall");
    }
  }
  return begins;
}

// (orig_input, orig_output, out_backprop, row_pooling_sequence, col_pooling_sequence).
struct FractionalMaxPoolGradKernel {
  explicit FractionalMaxPoolGradKernel(sdk::CreateContext& c) : overlapping(c.Bool("overlapping")) {}
  struct Plan {
    Plan(const FractionalMaxPoolGradKernel&, sdk::PrepareContext& c)
        : x(sdk::DimsOf(c.input(0)), false), y(sdk::DimsOf(c.input(1)), false) {
      const sdk::Dims out = sdk::DimsOf(c.input(1)), dy = sdk::DimsOf(c.input(2));
      if (y.batch != x.batch || y.channels != x.channels || !std::equal(out.begin(), out.end(), dy.begin(), dy.end())) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", dy, " for what takes ", sdk::DimsOf(c.input(0)),
                  " to ", out);
      }
    }
    Image x, y;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const int64_t* rows = GivenRegions(c, 3, plan.y.height, true, "row_pooling_sequence");
    const int64_t* columns = GivenRegions(c, 4, plan.y.width, true, "col_pooling_sequence");
    FractionalTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const int64_t lanes = plan.x.channels;
      c.ParallelFor(plan.x.batch, 3 * static_cast<double>(plan.x.pixels() * lanes), [&](int64_t begin, int64_t end) {
        sdk::CancelPoll poll(c);
        for (int64_t n = begin; n < end; ++n) {
          const T* in = c.input<T>(0) + n * plan.x.pixels() * lanes;
          T* dx = c.output<T>(0) + n * plan.x.pixels() * lanes;
          std::fill_n(dx, plan.x.pixels() * lanes, T(0));
          for (int64_t o = 0; o < plan.y.pixels(); ++o) {
            const Region ys(rows, o / plan.y.width, overlapping, plan.x.height),
                xs(columns, o % plan.y.width, overlapping, plan.x.width);
            constexpr int64_t kLanes = 64;
            using Place = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;  // the cell's number in the region; as
                                                                                 // wide as what it is chosen with
            for (int64_t k0 = 0; k0 < lanes; k0 += kLanes) {
              const int64_t many = std::min(kLanes, lanes - k0);
              T largest[kLanes];
              Place winners[kLanes] = {};  // where nothing is larger, the first cell
              std::fill_n(largest, kLanes, sdk::Lowest<T>());
              Place number = 0;
              for (int64_t y = ys.begin; y < ys.end; ++y) {
                for (int64_t x = xs.begin; x < xs.end; poll(2 * many), ++x, ++number) {
                  const T* cell = in + (y * plan.x.width + x) * lanes + k0;
                  for (int64_t k = 0; k < many; ++k) {
                    const T one = cell[k];
                    winners[k] = one > largest[k] ? number : winners[k];
                    largest[k] = one > largest[k] ? one : largest[k];
                  }
                }
              }
              const T *given = c.input<T>(1) + (n * plan.y.pixels() + o) * lanes + k0,
                      *dy = c.input<T>(2) + (n * plan.y.pixels() + o) * lanes + k0;
              for (int64_t k = 0; k < many; ++k) {
                if (number == 0 || !(largest[k] == given[k])) {
                  sdk::Fail(TENON_INVALID_ARGUMENT, "orig_output[", (n * plan.y.pixels() + o) * lanes + k0 + k,
                            "] is not the largest element of its region of orig_input");
                }
                const int64_t row = ys.begin + winners[k] / xs.size(), column = xs.begin + winners[k] % xs.size();
                T& to = dx[(row * plan.x.width + column) * lanes + k0 + k];
                to = sdk::AddOp()(to, dy[k]);
              }
            }
          }
        }
      });
    });
  }
  bool overlapping;
};

// (orig_input_tensor_shape, out_backprop, row_pooling_sequence, col_pooling_sequence). Parts are summed as doubles,
// those of integers too.
struct FractionalAvgPoolGradKernel {
  explicit FractionalAvgPoolGradKernel(sdk::CreateContext& c) : overlapping(c.Bool("overlapping")) {}
  struct Plan {
    Plan(const FractionalAvgPoolGradKernel&, sdk::PrepareContext& c)
        : x(sdk::DimsOf(c.output(0)), false), y(sdk::DimsOf(c.input(1)), false) {
      if (y.batch > x.batch || y.channels != x.channels) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", sdk::DimsOf(c.input(1)), " for an input of shape ",
                  sdk::DimsOf(c.output(0)));
      }
      c.Workspace(sdk::Multiply(x.count(), sizeof(double)));
    }
    Image x, y;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const int64_t* rows = GivenRegions(c, 2, plan.y.height, false, "row_pooling_sequence");
    const int64_t* columns = GivenRegions(c, 3, plan.y.width, false, "col_pooling_sequence");
    FractionalTypes::Dispatch(c.input_view(1).dtype, [&]<class T>(Tag<T>) {
      const int64_t lanes = plan.x.channels, image = plan.x.pixels() * lanes;
      c.ParallelFor(plan.x.batch, 3 * static_cast<double>(image), [&](int64_t begin, int64_t end) {
        sdk::CancelPoll poll(c);
        for (int64_t n = begin; n < end; ++n) {
          double* sums = c.workspace<double>() + n * image;
          std::fill_n(sums, image, 0.0);
          for (int64_t o = 0; n < plan.y.batch && o < plan.y.pixels(); ++o) {
            const Region ys(rows, o / plan.y.width, overlapping, plan.x.height),
                xs(columns, o % plan.y.width, overlapping, plan.x.width);
            const T* dy = c.input<T>(1) + (n * plan.y.pixels() + o) * lanes;
            const auto cells = static_cast<double>(ys.size() * xs.size());
            for (int64_t y = ys.begin; y < ys.end; ++y) {
              for (int64_t x = xs.begin; x < xs.end; poll(lanes), ++x) {
                double* to = sums + (y * plan.x.width + x) * lanes;
                for (int64_t k = 0; k < lanes; ++k) to[k] += static_cast<double>(dy[k]) / cells;
              }
            }
          }
          for (int64_t i = 0; i < image; ++i) c.output<T>(0)[n * image + i] = static_cast<T>(sums[i]);
        }
      });
    });
  }
  bool overlapping;
};

constexpr sdk::Traits kDrawsRegions = {.constraints = sdk::Constraints<FractionalTypes::Constraint<"T">>::list,
                                .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_STATEFUL};
constexpr sdk::Traits kMaxGrad = {.constraints = sdk::Constraints<FractionalTypes::Constraint<"T">>::list};

}  // namespace

TENON_CPU_KERNEL(FractionalMaxPool) = CpuKernel<FractionalPoolKernel<true>>("FractionalMaxPool", kDrawsRegions);
TENON_CPU_KERNEL(FractionalAvgPool) = CpuKernel<FractionalPoolKernel<false>>("FractionalAvgPool", kDrawsRegions);
TENON_CPU_KERNEL(FractionalMaxPoolGrad) = CpuKernel<FractionalMaxPoolGradKernel>("FractionalMaxPoolGrad", kMaxGrad);
TENON_CPU_KERNEL(FractionalAvgPoolGrad) = CpuKernel<FractionalAvgPoolGradKernel>("FractionalAvgPoolGrad", kMaxGrad);

}  // namespace tenon::cpu
