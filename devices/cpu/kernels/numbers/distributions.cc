// SPDX-License-Identifier: Apache-2.0
// Random numbers of distributions with parameters: TensorFlow's numbers, as it draws them on one thread. An element's
// number depends on its place alone, and all are drawn in double.
//
// Multinomial: by the sums of likelihoods. Binomial: geometric numbers added up, or Hormann's transformed rejection
// (BTRS, 1993). Gamma: Marsaglia and Tsang's (2000). Poisson: Knuth's products, or Hormann's PTRS (1993). Truncated
// normal: Robert's (1995) and plain rejection.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/random.h"

namespace tenon::cpu {
namespace {

using sdk::Numbers32;
using sdk::Philox;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Numbers of one element, from blocks of its own; of each pair the second comes first, as in TensorFlow.
class Uniforms {
 public:
  explicit Uniforms(Philox& generator) : generator_(generator) {}
  double Next() {
    if (left_ == 0) {
      const Philox::Block x = generator_.Next();
      pair_ = {sdk::UnitDouble(x[0], x[1]), sdk::UnitDouble(x[2], x[3])};
      left_ = 2;
    }
    return pair_[--left_];
  }

 private:
  Philox& generator_;
  std::array<double, 2> pair_ = {};
  size_t left_ = 0;
};
class Normals {
 public:
  explicit Normals(Philox& generator) : generator_(generator) {}
  double Next() {
    if (left_ == 0) {
      const Philox::Block x = generator_.Next();
      sdk::BoxMuller(x[0], x[1], x[2], x[3], &pair_[0], &pair_[1]);
      left_ = 2;
    }
    return pair_[--left_];
  }

 private:
  Philox& generator_;
  std::array<double, 2> pair_ = {};
  size_t left_ = 0;
};

// The element at `place` begins here, so many blocks after the one before it.
Philox GeneratorAt(Philox base, int64_t place, uint64_t each = sdk::kReservedPerOutput) {
  base.Skip(each * static_cast<uint64_t>(place));
  return base;
}

template <class T>
T FromDouble(double value) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(value);
  else if constexpr (std::is_same_v<T, double>) return value;
  else return T(static_cast<float>(value));
}
template <class T>
double Highest() {
  if constexpr (std::is_integral_v<T>) return static_cast<double>(std::numeric_limits<T>::max());
  else if constexpr (std::is_same_v<T, Half>) return 65504;
  else return static_cast<double>(std::numeric_limits<T>::max());
}

using Parameters = Types<float, double, Half>;
using Results = Types<float, double, Half, int32_t, int64_t>;

// ---- Multinomial ----

// Rows of logits, whose sums of likelihoods stand in the workspace.
struct Multinomial {
  struct Plan {
    template <class Kernel>
    Plan(const Kernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.input(0));
      if (dims.size() != 2) sdk::Fail(TENON_INVALID_ARGUMENT, "logits should be a matrix, got shape ", dims);
      rows = dims[0], classes = dims[1];
      sums = c.Workspace(sdk::Multiply(classes, sizeof(double)));
    }
    int64_t rows, classes, sums;
  };
  static int64_t SamplesOf(const sdk::RunContext& c, const Plan& plan) {
    const int64_t samples = *c.input<int32_t>(1);
    if (samples < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "num_samples should be nonnegative, got ", samples);
    if (plan.classes == 0) sdk::Fail(TENON_INVALID_ARGUMENT, "num_classes should be positive, got 0");
    return samples;
  }
  static void Draw(const sdk::RunContext& c, const Plan& plan, int64_t samples, Numbers32 numbers) {
    Reals::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      Indices::Dispatch(c.output_view(0).dtype, [&]<class Result>(Tag<Result>) {
        double* const sums = c.workspace<double>(plan.sums);
        sdk::CancelPoll poll(c);
        for (int64_t row = 0; row < plan.rows; ++row) {
          poll(10 * plan.classes);
          const double total = SumUp(c.input<T>(0) + row * plan.classes, plan.classes, sums);
          for (int64_t i = 0; i < samples; ++i) {
            poll(40);
            c.output<Result>(0)[row * samples + i] =
                static_cast<Result>(std::upper_bound(sums, sums + plan.classes, numbers.NextDouble() * total) - sums);
          }
        }
      });
    });
  }

 private:
  // Sums of the likelihoods up to each class, which are not normalised; a logit that is not finite is as likely as
  // nothing.
  template <class T>
  static double SumUp(const T* logits, int64_t classes, double* sums) {
    double most = -Highest<float>();
    if constexpr (std::is_same_v<T, double>) most = -Highest<double>();
    for (int64_t i = 0; i < classes; ++i)
      if (const auto logit = static_cast<double>(logits[i]); std::isfinite(logit)) most = std::max(most, logit);
    double total = 0;
    for (int64_t i = 0; i < classes; ++i) {
      const auto logit = static_cast<double>(logits[i]);
      if (std::isfinite(logit)) total += std::exp(logit - most);
      sums[i] = total;
    }
    return total;
  }
};

struct MultinomialKernel {
  explicit MultinomialKernel(sdk::CreateContext& c) : stream(c) {}
  using Plan = Multinomial::Plan;
  void Run(const Plan& plan, sdk::RunContext c) const {
    const int64_t samples = Multinomial::SamplesOf(c, plan);
    if (plan.rows * samples == 0) return;
    // A double takes two numbers, and rows are counted in fours.
    const uint64_t outputs = static_cast<uint64_t>(plan.rows) * static_cast<uint64_t>((samples + 3) / 4 * 4) * 2;
    Multinomial::Draw(c, plan, samples, Numbers32(stream.ReserveBlocks(outputs * sdk::kReservedPerOutput)));
  }
  sdk::Stream stream;
};

struct SeededMultinomialKernel {
  using Plan = Multinomial::Plan;
  void Run(const Plan& plan, sdk::RunContext c) const {
    const int64_t samples = Multinomial::SamplesOf(c, plan);
    if (plan.rows * samples != 0)
      Multinomial::Draw(c, plan, samples, Numbers32(sdk::KeyCounter(c.input_view(2)).generator()));
  }
};

// ---- Binomial ----

// How many of `count` tries succeed. Each is likely by `chance`, at most a half.
double Geometrically(double count, double chance, Philox& generator, sdk::CancelPoll& poll) {
  Uniforms uniforms(generator);
  const double by = std::log1p(-chance);
  double sum = 0;
  for (int64_t found = 0;; ++found) {
    poll(30);
    sum += std::ceil(std::log(uniforms.Next()) / by);
    if (sum > count) return static_cast<double>(found);
  }
}

// What Stirling's formula leaves of the logarithm of k!.
double StirlingRest(double k) {
  static constexpr double kRests[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                                      0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                                      0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return kRests[static_cast<size_t>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

double ByRejection(double count, double chance, Philox& generator, sdk::CancelPoll& poll) {
  Uniforms uniforms(generator);
  const double deviation = std::sqrt(count * chance * (1 - chance));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * chance, c = count * chance + 0.5,
               v_r = 0.92 - 4.2 / b, r = chance / (1 - chance);
  const double alpha = (2.83 + 5.1 / b) * deviation, m = std::floor((count + 1) * chance);
  for (;;) {
    poll(100);
    const double u = uniforms.Next() - 0.5;
    const double v = uniforms.Next(), us = 0.5 - std::abs(u), k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > count) continue;
    const double upper = (m + 0.5) * std::log((m + 1) / (r * (count - m + 1))) +
                         (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(r * (count - k + 1) / (k + 1)) + StirlingRest(m) +
                         StirlingRest(count - m) - StirlingRest(k) - StirlingRest(count - k);
    if (std::log(v * alpha / (a / (us * us) + b)) <= upper) return k;
  }
}

// Inputs: shape, seed, counts, probs.
struct BinomialKernel {
  void Run(sdk::RunContext c) const {
    const sdk::Dims out = sdk::DimsOf(c.output_view(0)), counts = sdk::DimsOf(c.input_view(2)),
                    chances = sdk::DimsOf(c.input_view(3));
    const size_t rank = std::max(counts.size(), chances.size());
    std::vector<int64_t> both(rank, 1);
    for (const sdk::Dims dims : {counts, chances})
      for (size_t i = 0; i < dims.size(); ++i) {
        int64_t& dim = both[rank - dims.size() + i];
        if (dim != dims[i] && dim != 1 && dims[i] != 1)
          sdk::Fail(TENON_INVALID_ARGUMENT, "counts and probs must have compatible batch dimensions: ", counts, " vs. ",
                    chances);
        if (dims[i] != 1) dim = dims[i];
      }
    if (out.size() < rank || !std::equal(both.begin(), both.end(), out.end() - static_cast<std::ptrdiff_t>(rank)))
      sdk::Fail(TENON_INVALID_ARGUMENT, "Shape passed in must end with broadcasted shape: ", out, " does not end with ",
                both);
    const int64_t total = sdk::Count(out), batches = sdk::Count(sdk::Dims(both));
    if (total == 0) return;
    const Philox base = sdk::KeyCounter(c.input_view(1)).generator();
    Parameters::Dispatch(c.input_view(2).dtype, [&]<class T>(Tag<T>) {
      Results::Dispatch(c.output_view(0).dtype,
                        [&]<class Result>(Tag<Result>) { Fill<T, Result>(c, both, total / batches, total, base); });
    });
  }

 private:
  // Where input `input` has its number for a batch.
  static int64_t PlaceOf(const sdk::RunContext& c, int32_t input, const std::vector<int64_t>& both, int64_t batch) {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(input));
    int64_t place = 0, stride = 1;
    for (size_t i = both.size(); i-- > 0; batch /= both[i]) {
      if (i < both.size() - dims.size()) continue;
      const int64_t dim = dims[i - (both.size() - dims.size())];
      if (dim != 1) place += batch % both[i] * stride;
      stride *= dim;
    }
    return place;
  }
  template <class T, class Result>
  static void Fill(const sdk::RunContext& c, const std::vector<int64_t>& both, int64_t each, int64_t total,
                   const Philox& base) {
    const int64_t batches = total / each;
    c.ParallelFor(total, 200, [&](int64_t begin, int64_t end) {
      sdk::CancelPoll poll(c);
      for (int64_t at = begin; at < end; ++at) {
        const int64_t batch = at / each;
        const T count = c.input<T>(2)[PlaceOf(c, 2, both, batch)], chance = c.input<T>(3)[PlaceOf(c, 3, both, batch)];
        const double drawn = One(count, chance, base, at, poll);
        if (std::is_integral_v<Result> && !(drawn <= Highest<Result>()))
          sdk::Fail(TENON_INVALID_ARGUMENT, "counts ", std::to_string(static_cast<double>(count)), " and probs ",
                    std::to_string(static_cast<double>(chance)), " give no whole number of the output's type");
        c.output<Result>(0)[batch + at % each * batches] = FromDouble<Result>(drawn);
      }
    });
  }
  template <class T>
  static double One(T count, T chance, const Philox& base, int64_t place, sdk::CancelPoll& poll) {
    const auto tries = static_cast<double>(count), p = static_cast<double>(chance);
    if (!std::isfinite(tries))
      sdk::Fail(TENON_INVALID_ARGUMENT, "counts has ", std::to_string(tries), ", which is no number of tries");
    if (tries <= 0 || p <= 0) return 0;
    if (p >= 1) return tries;
    if (std::isnan(p)) return kNan;
    // How many fail, where that is less likely. The product is of the parameters' type.
    const bool rather_fails = p > 0.5;
    using W = Wide<T>;
    const T rarer = rather_fails ? T(W(1) - static_cast<W>(chance)) : chance;
    const auto q = static_cast<double>(rarer);
    const bool many = static_cast<double>(T(static_cast<W>(count) * static_cast<W>(rarer))) >= 10;
    Philox generator = GeneratorAt(base, place, many ? sdk::kReservedPerOutput : 42);  // as TensorFlow has them
    const double drawn = many ? ByRejection(tries, q, generator, poll) : Geometrically(tries, q, generator, poll);
    return rather_fails ? tries - drawn : drawn;
  }
};

// ---- Gamma ----

double Gamma(double alpha, Philox generator, sdk::CancelPoll& poll) {
  Uniforms uniforms(generator);
  if (alpha == 1) return -std::log1p(-uniforms.Next());
  if (!(alpha > 0)) return alpha == 0 ? 0 : kNan;
  Normals normals(generator);
  const bool below_one = alpha < 1;
  const double d = alpha + (below_one ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / std::sqrt(d);
  for (;;) {
    poll(60);
    const double x = normals.Next();
    double v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    const double u = uniforms.Next();
    if (!(u < 1 - 0.0331 * (x * x) * (x * x)) && !(std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v)))) continue;
    return below_one ? d * v * std::pow(uniforms.Next(), 1 / alpha) : d * v;
  }
}

// each: so many numbers for each of input `input`, which they lie around.
void FillGamma(const sdk::RunContext& c, int32_t input, const Philox& base) {
  const int64_t alphas = sdk::Count(c.input_view(input)), total = sdk::Count(c.output_view(0));
  if (total == 0) return;
  const int64_t each = total / alphas;
  Parameters::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
    c.ParallelFor(total, 150, [&](int64_t begin, int64_t end) {
      sdk::CancelPoll poll(c);
      for (int64_t at = begin; at < end; ++at)
        c.output<T>(0)[at / each + at % each * alphas] =
            FromDouble<T>(Gamma(static_cast<double>(c.input<T>(input)[at / each]), GeneratorAt(base, at), poll));
    });
  });
}

struct GammaKernel {
  explicit GammaKernel(sdk::CreateContext& c) : stream(c) {}
  void Run(sdk::RunContext c) const {
    if (sdk::Count(c.output_view(0)) > 0) FillGamma(c, 1, stream.Reserve(sdk::Count(c.output_view(0))));
  }
  sdk::Stream stream;
};

// ---- Poisson ----

// How many events come in the time in which `rate` are to be expected; no more than `highest`.
double Poisson(double rate, double highest, Philox generator, sdk::CancelPoll& poll) {
  if (!std::isfinite(rate) || rate < 0) return kNan;
  Uniforms uniforms(generator);
  if (rate < 10) {
    const double limit = std::exp(-rate);
    double product = 1;
    for (double events = 0;; ++events) {
      poll(10);
      product *= uniforms.Next();
      if (product <= limit && events <= highest) return events;
    }
  }
  const double log_rate = std::log(rate), b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b,
               inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  for (;;) {
    poll(100);
    const double u = uniforms.Next() - 0.5;
    const double v = uniforms.Next(), shifted = 0.5 - std::abs(u),
                 k = std::floor((2 * a / shifted + b) * u + rate + 0.43);
    if (k > highest) continue;
    if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k < 0 || (shifted < 0.013 && v > shifted)) continue;
    if (std::log(v * inverse_alpha / (a / (shifted * shifted) + b)) <= -rate + k * log_rate - std::lgamma(k + 1))
      return k;
  }
}

// Inputs: shape, rate.
struct PoissonKernel {
  explicit PoissonKernel(sdk::CreateContext& c) : stream(c) {}
  void Run(sdk::RunContext c) const {
    const int64_t rates = sdk::Count(c.input_view(1)), total = sdk::Count(c.output_view(0));
    if (total == 0) return;
    const int64_t each = total / rates;
    const Philox base = stream.Reserve(total);
    Results::Dispatch(c.input_view(1).dtype, [&]<class Rate>(Tag<Rate>) {
      Results::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
        const double highest = Highest<T>();
        c.ParallelFor(total, 150, [&](int64_t begin, int64_t end) {
          sdk::CancelPoll poll(c);
          for (int64_t at = begin; at < end; ++at) {
            const auto rate = static_cast<double>(c.input<Rate>(1)[at / each]);
            // Hardly any number would be one of the output's.
            if (std::isfinite(rate) && rate > highest)
              sdk::Fail(TENON_INVALID_ARGUMENT, "rate has ", std::to_string(rate),
                        "; the output's type has no numbers so large");
            const double drawn = Poisson(rate, highest, GeneratorAt(base, at), poll);
            if (std::is_integral_v<T> && std::isnan(drawn))
              sdk::Fail(TENON_INVALID_ARGUMENT, "rate has ", std::to_string(rate), ", which gives no whole number");
            c.output<T>(0)[at / each + at % each * rates] = FromDouble<T>(drawn);
          }
        });
      });
    });
  }
  sdk::Stream stream;
};

// ---- Normal numbers between bounds that each row has of its own ----

// Arithmetic is the type's, each step rounded.
template <class T>
class Bounded {
 public:
  static constexpr int kMostTries = 1000;
  Bounded(T mean, T deviation, T low, T high) : mean_(mean), deviation_(deviation) {
    const auto number = [](T value) { return static_cast<double>(value); };
    if (!(number(deviation) > 0 && number(low) < number(high) &&
          (std::isfinite(number(low)) || std::isfinite(number(high)))))
      sdk::Fail(TENON_INVALID_ARGUMENT, "Invalid parameters: mean ", std::to_string(number(mean)), ", deviation ",
                std::to_string(number(deviation)), ", bounds ", std::to_string(number(low)), " and ",
                std::to_string(number(high)));
    // Mirrored where only the upper bound counts, or both lie below the mean.
    if ((std::isinf(number(low)) && number(low) < 0) || number(high) < number(mean)) {
      std::swap(low, high);
      deviation_ = T(-static_cast<Wide<T>>(deviation_));
    }
    low_ = Divided(Minus(low, mean), deviation_);
    high_ = Divided(Minus(high, mean), deviation_);
  }
  void Draw(const sdk::RunContext& c, Philox& generator, T* out, int64_t count) const {
    sdk::CancelPoll poll(c);
    const W low = low_, high = high_;
    const T root = Root(Plus(Times(low_, low_), T(4.0f)));
    const T cutoff =
        Divided(Times(T(2.0f), Exp(Plus(T(0.5f), Divided(Times(low_, Minus(low_, root)), T(4.0f))))), Plus(low_, root));
    const W inside = T(1.3f);
    if ((low < -inside && high >= 0) || (high > inside && low <= 0)) ByNormals(generator, out, count, poll);
    else if (static_cast<W>(Minus(high_, low_)) < static_cast<W>(cutoff)) ByUniforms(generator, out, count, poll);
    else ByExponentials(generator, out, count, poll);
  }

 private:
  using W = Wide<T>;
  static constexpr int kSize = sdk::kGroup<T>;
  static T Plus(T x, T y) { return T(static_cast<W>(x) + static_cast<W>(y)); }
  static T Minus(T x, T y) { return T(static_cast<W>(x) - static_cast<W>(y)); }
  static T Times(T x, T y) { return T(static_cast<W>(x) * static_cast<W>(y)); }
  static T Divided(T x, T y) { return T(static_cast<W>(x) / static_cast<W>(y)); }
  static T Exp(T x) { return T(std::exp(static_cast<W>(x))); }
  static T Log(T x) { return T(std::log(static_cast<W>(x))); }
  static T Root(T x) { return T(std::sqrt(static_cast<W>(x))); }
  static bool AtMost(T x, T y) { return static_cast<W>(x) <= static_cast<W>(y); }
  T Placed(T z) const { return Plus(Times(z, deviation_), mean_); }

  void ByNormals(Philox& generator, T* out, int64_t count, sdk::CancelPoll& poll) const {
    int tries = 0;
    for (int64_t found = 0; found < count;) {
      poll(50);
      T drawn[kSize];
      sdk::Normal()(generator.Next(), drawn);
      for (int i = 0; i < kSize && found < count; ++i) {
        if (AtMost(low_, drawn[i]) && AtMost(drawn[i], high_)) {
          out[found++] = Placed(drawn[i]);
          tries = 0;
        } else if (++tries > kMostTries) {
          sdk::Fail(TENON_INTERNAL, "none of ", kMostTries, " normal numbers lay between the bounds");
        }
      }
    }
  }
  void ByUniforms(Philox& generator, T* out, int64_t count, sdk::CancelPoll& poll) const {
    const T difference = Minus(high_, low_), plus = static_cast<W>(low_) < 0 ? T(0.0f) : Times(low_, low_);
    int tries = 0;
    for (int64_t found = 0; found < count;) {
      poll(80);
      T drawn[kSize], chance[kSize];
      sdk::Uniform()(generator.Next(), drawn);
      sdk::Uniform()(generator.Next(), chance);
      for (int i = 0; i < kSize && found < count; ++i) {
        const T z = Plus(Times(drawn[i], difference), low_), g = Divided(Minus(plus, Times(z, z)), T(2.0f));
        if (!AtMost(chance[i], Exp(g)) && ++tries < kMostTries) continue;
        out[found++] = Placed(z);
        tries = 0;
      }
    }
  }
  void ByExponentials(Philox& generator, T* out, int64_t count, sdk::CancelPoll& poll) const {
    const T alpha = Divided(Plus(low_, Root(Plus(Times(low_, low_), T(4.0f)))), T(2.0f));
    int tries = 0;
    for (int64_t found = 0; found < count;) {
      poll(80);
      T drawn[kSize];
      sdk::Uniform()(generator.Next(), drawn);
      for (int i = 0; i < kSize && found < count; i += 2) {
        const T z = Plus(Divided(T(-static_cast<W>(Log(drawn[i]))), alpha), low_);
        const T x = static_cast<W>(low_) < static_cast<W>(alpha) ? Minus(alpha, z) : Minus(low_, alpha);
        const T g = Exp(Divided(Times(T(-static_cast<W>(x)), x), T(2.0f)));
        const bool good = AtMost(drawn[i + 1], g) && static_cast<W>(z) < static_cast<W>(high_);
        if (!good && ++tries < kMostTries) continue;
        out[found++] = Placed(z);
        tries = 0;
      }
    }
  }

  T mean_, deviation_, low_, high_;
};

// Inputs: shape, means, stdevs, minvals, maxvals: scalars, or vectors of as many as the output has rows.
struct ParameterizedKernel {
  explicit ParameterizedKernel(sdk::CreateContext& c) : stream(c) {}
  void Run(sdk::RunContext c) const {
    const sdk::Dims out = sdk::DimsOf(c.output_view(0));
    if (out.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "Input shape should have one dim at least");
    int64_t batches = out[0], each = sdk::Count(out.subspan(1));
    const int64_t total = sdk::Count(out);
    bool one = true;  // kind of number; bounds that are vectors say otherwise in TensorFlow, whatever their length
    for (int32_t i = 1; i < 5; ++i) {
      const sdk::Dims dims = sdk::DimsOf(c.input_view(i));
      one &= i < 3 ? sdk::Count(dims) == 1 : dims.empty();
      if (dims.size() > 1 || (dims.size() == 1 && dims[0] != 1 && dims[0] != batches))
        sdk::Fail(TENON_INVALID_ARGUMENT, "parameter ", i, " of shape ", dims,
                  " should be a scalar, or have length 1 or shape[0], ", batches);
    }
    // Which is drawn in pieces.
    constexpr int64_t kPiece = 100;
    if (one) each = kPiece, batches = (total + kPiece - 1) / kPiece;
    Philox generator = stream.ReserveBlocks(static_cast<uint64_t>(batches) * 2 * Bounded<float>::kMostTries *
                                            static_cast<uint64_t>(each + 3) / 4);
    Parameters::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      const auto parameter = [&](int32_t input, int64_t batch) {
        return c.input<T>(input)[sdk::Count(c.input_view(input)) == 1 ? 0 : batch];
      };
      for (int64_t b = 0; b < batches; ++b)
        Bounded<T>(parameter(1, b), parameter(2, b), parameter(3, b), parameter(4, b))
            .Draw(c, generator, c.output<T>(0) + b * each, std::min(each, total - b * each));
    });
  }
  sdk::Stream stream;
};

constexpr uint32_t kDrawsStateful = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_STATEFUL;

}  // namespace

TENON_CPU_KERNEL(Multinomial) = CpuKernel<MultinomialKernel>(
    "Multinomial", {.constraints = sdk::Constraints<Reals::Constraint<"T">, Indices::Constraint<"output_dtype">>::list,
                    .flags = kDrawsStateful});
TENON_CPU_KERNEL(StatelessMultinomial) = CpuKernel<SeededMultinomialKernel>(
    "StatelessMultinomial",
    {.constraints = sdk::Constraints<Reals::Constraint<"T">, Indices::Constraint<"output_dtype">>::list});
TENON_CPU_KERNEL(StatelessRandomBinomial) = CpuKernel<BinomialKernel>(
    "StatelessRandomBinomial",
    {.constraints = sdk::Constraints<Parameters::Constraint<"T">, Results::Constraint<"dtype">>::list});
TENON_CPU_KERNEL(RandomGamma) = CpuKernel<GammaKernel>(
    "RandomGamma", {.constraints = sdk::Constraints<Parameters::Constraint<"T">>::list, .flags = kDrawsStateful});
TENON_CPU_KERNEL(RandomPoissonV2) = CpuKernel<PoissonKernel>(
    "RandomPoissonV2", {.constraints = sdk::Constraints<Results::Constraint<"R">, Results::Constraint<"dtype">>::list,
                        .flags = kDrawsStateful});
TENON_CPU_KERNEL(ParameterizedTruncatedNormal) = CpuKernel<ParameterizedKernel>(
    "ParameterizedTruncatedNormal",
    {.constraints = sdk::Constraints<Parameters::Constraint<"dtype">>::list, .flags = kDrawsStateful});

}  // namespace tenon::cpu
