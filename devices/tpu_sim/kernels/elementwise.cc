// SPDX-License-Identifier: Apache-2.0
// AddV2, Mul and Relu on the vector unit, in float32 whatever the type in memory; Identity as a copy within the memory.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/kernel.h"

namespace tenon::tpu_sim {
namespace {

struct Add {
  static constexpr char kName[] = "AddV2";
  static float Of(float a, float b) { return a + b; }
};
struct Multiply {
  static constexpr char kName[] = "Mul";
  static float Of(float a, float b) { return a * b; }
};

// How two inputs are walked beside their broadcast output.
struct Walk {
  std::vector<int64_t> dims;         // of the output; at least one
  std::vector<int64_t> left, right;  // steps of the inputs in elements; 0 where one element serves the whole dim
  int64_t count = 1;
};

std::vector<int64_t> Steps(sdk::Dims in, const std::vector<int64_t>& out) {
  std::vector<int64_t> steps(out.size(), 0);
  int64_t step = 1;
  for (size_t back = 1; back <= in.size(); ++back) {
    const int64_t dim = in[in.size() - back];
    if (back > out.size() || (dim != 1 && dim != out[out.size() - back])) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a shape ", in, " does not broadcast to ", out);
    }
    if (dim != 1) steps[out.size() - back] = step;
    step *= dim;
  }
  return steps;
}

// function(output, left, right) of every element, in order.
template <class Function>
void ForEach(const Walk& walk, Function&& function) {
  const size_t inner = walk.dims.size() - 1;
  std::vector<int64_t> at(walk.dims.size(), 0);
  int64_t left = 0, right = 0;
  for (int64_t out = 0; out < walk.count; out += walk.dims[inner]) {
    for (int64_t i = 0; i < walk.dims[inner]; ++i) function(out + i, left + i * walk.left[inner], right + i * walk.right[inner]);
    for (size_t d = inner; d-- > 0;) {
      left += walk.left[d];
      right += walk.right[d];
      if (++at[d] < walk.dims[d]) break;
      left -= walk.dims[d] * walk.left[d];
      right -= walk.dims[d] * walk.right[d];
      at[d] = 0;
    }
  }
}

template <class Function, class T>
void Compute(const Walk& walk, const char* a, const char* b, char* c) {
  const T* left = reinterpret_cast<const T*>(a);
  const T* right = reinterpret_cast<const T*>(b);
  T* out = reinterpret_cast<T*>(c);
  ForEach(walk, [&](int64_t o, int64_t l, int64_t r) {
    out[o] = FromFloat<T>(Function::Of(ToFloat(left[l]), ToFloat(right[r])));
  });
}

template <class Function>
struct BinaryKernel : DeviceKernel {
  using DeviceKernel::DeviceKernel;
  struct Plan {
    Plan(const BinaryKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims out = sdk::DimsOf(c.output(0));
      auto built = std::make_shared<Walk>();
      built->dims.assign(out.begin(), out.end());
      if (built->dims.empty()) built->dims.push_back(1);
      built->count = sdk::Count(out);
      built->left = Steps(sdk::DimsOf(c.input(0)), built->dims);
      built->right = Steps(sdk::DimsOf(c.input(1)), built->dims);
      const bool half = c.output(0).dtype == TENON_DT_BFLOAT16;
      const int64_t size = half ? 2 : 4;
      cost = VectorCycles(kernel.machine(), built->count, (sdk::Count(c.input(0)) + sdk::Count(c.input(1))) * size,
                          built->count * size);
      compute = half ? &Compute<Function, Bfloat16> : &Compute<Function, float>;
      walk = std::move(built);
    }
    std::shared_ptr<const Walk> walk;  // work may outlive the plan
    Cycles cost;
    void (*compute)(const Walk&, const char*, const char*, char*);
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const char* a = this->Input(c, 0);
    const char* b = this->Input(c, 1);
    char* out = this->Output(c, 0);
    this->Submit(c, Function::kName, plan.cost, [&plan, a, b, out] {
      if (plan.walk->count > 0) plan.compute(*plan.walk, a, b, out);
    });
  }
};

template <class T>
void Rectify(const char* in, char* out, int64_t count) {
  const T* from = reinterpret_cast<const T*>(in);
  T* to = reinterpret_cast<T*>(out);
  // A NaN stays one.
  for (int64_t i = 0; i < count; ++i) to[i] = ToFloat(from[i]) < 0 ? FromFloat<T>(0) : from[i];
}

struct ReluKernel : DeviceKernel {
  using DeviceKernel::DeviceKernel;
  struct Plan {
    Plan(const ReluKernel& kernel, sdk::PrepareContext& c)
        : count(sdk::Count(c.input(0))), half(c.input(0).dtype == TENON_DT_BFLOAT16) {
      cost = VectorCycles(kernel.machine(), count, count * (half ? 2 : 4), count * (half ? 2 : 4));
    }
    int64_t count;
    bool half;
    Cycles cost;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const char* in = Input(c, 0);
    char* out = Output(c, 0);
    Submit(c, "Relu", plan.cost, [&plan, in, out] {
      plan.half ? Rectify<Bfloat16>(in, out, plan.count) : Rectify<float>(in, out, plan.count);
    });
  }
};

struct IdentityKernel : DeviceKernel {
  using DeviceKernel::DeviceKernel;
  void Run(sdk::RunContext c) const {
    const char* in = Input(c, 0);
    char* out = Output(c, 0);
    const uint64_t bytes = std::min(c.input_view(0).byte_size, c.output_view(0).byte_size);
    Submit(c, "Identity", MemoryCycles(machine(), static_cast<int64_t>(bytes), static_cast<int64_t>(bytes)), [in, out, bytes] {
      if (bytes > 0) std::memmove(out, in, bytes);
    });
  }
};

using Floats = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT, TENON_DT_BFLOAT16>>;
using Plain = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT, TENON_DT_BFLOAT16, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_INT8,
                                            TENON_DT_INT16, TENON_DT_INT32, TENON_DT_INT64, TENON_DT_UINT8, TENON_DT_UINT16,
                                            TENON_DT_UINT32, TENON_DT_UINT64, TENON_DT_BOOL>>;
constexpr tenon_in_place kEither[] = {{0, 0}, {1, 0}};
constexpr tenon_in_place kFirst[] = {{0, 0}};
constexpr uint32_t kTraits = TENON_KERNEL_DETERMINISTIC;

}  // namespace

extern constinit const tenon_kernel_registration kAddV2 = sdk::Registration<BinaryKernel<Add>>(
    "AddV2", {.device_type = kDeviceType, .constraints = Floats::list, .in_place = kEither, .flags = kTraits});
extern constinit const tenon_kernel_registration kMul = sdk::Registration<BinaryKernel<Multiply>>(
    "Mul", {.device_type = kDeviceType, .constraints = Floats::list, .in_place = kEither, .flags = kTraits});
extern constinit const tenon_kernel_registration kRelu = sdk::Registration<ReluKernel>(
    "Relu", {.device_type = kDeviceType, .constraints = Floats::list, .in_place = kFirst, .flags = kTraits});
extern constinit const tenon_kernel_registration kIdentity = sdk::Registration<IdentityKernel>(
    "Identity", {.device_type = kDeviceType, .constraints = Plain::list, .in_place = kFirst, .flags = kTraits});

}  // namespace tenon::tpu_sim
