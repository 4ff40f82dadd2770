// SPDX-License-Identifier: Apache-2.0
// How long run() of a kernel takes, without an engine: one thread, shapes prepared once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

// Another package of kernels may be measured with the same shapes.
#if !defined(TENON_BENCH_PACKAGE)
#define TENON_BENCH_HEADER "device.h"
#define TENON_BENCH_PACKAGE tenon::cpu::kKernelPackage
#endif
#include TENON_BENCH_HEADER
#include "tenon/sdk/kernel/kernel.h"

const tenon_host* tenon_plugin_host = nullptr;

namespace {

using Shape = std::vector<int64_t>;

const tenon_kernel_package& kPackage = TENON_BENCH_PACKAGE;

struct tenon_status_box {
  uint32_t code;
  std::string text;
};

const tenon_host* Host() {
  static tenon_host host = {};
  host.status_new = [](uint32_t code, tenon_span text) {
    return reinterpret_cast<tenon_status*>(new tenon_status_box{code, std::string(text.data, text.size)});
  };
  host.status_release = [](tenon_status* s) { delete reinterpret_cast<tenon_status_box*>(s); };
  return &host;
}

void Require(tenon_status* status) {
  if (status == nullptr) return;
  fprintf(stderr, "%s\n", reinterpret_cast<tenon_status_box*>(status)->text.c_str());
  exit(1);
}

bool TakesFloats(const tenon_kernel_registration& r) {
  const auto any = [](const tenon_type_constraint& c) {
    return std::find(c.dtypes, c.dtypes + c.count, uint32_t{TENON_DT_FLOAT}) != c.dtypes + c.count;
  };
  return r.constraint_count == 0 || std::any_of(r.constraints, r.constraints + r.constraint_count, any);
}

struct Attribute {
  uint32_t kind;
  std::vector<int64_t> integers;
  std::string text;
};
using Attributes = std::map<std::string, Attribute>;

// A prepared kernel with its tensors.
class Bench {
 public:
  // constants: int32 values of inputs, known at prepare.
  Bench(const char* op, std::vector<Shape> inputs, Shape output, const Attributes& attributes = {},
        const std::map<size_t, std::vector<int32_t>>& constants = {}) {
    tenon_plugin_host = Host();
    for (uint64_t i = 0; i < kPackage.count; ++i) {
      if (tenon::sdk::ToText(kPackage.registrations[i]->op) == op && TakesFloats(*kPackage.registrations[i]))
        registration_ = kPackage.registrations[i];
    }
    if (registration_ == nullptr) {
      refusal_ = "no kernel in this package";
      return;
    }
    shapes_ = std::move(inputs);
    shapes_.push_back(std::move(output));
    for (Shape& shape : shapes_) {
      tenon_tensor_view view = {};
      int64_t n = 1;
      for (int64_t d : shape) n *= d;
      view.dl.data = aligned_alloc(64, static_cast<size_t>((n * 4 + 127) / 64 * 64));
      for (int64_t i = 0; i < n; ++i) static_cast<float*>(view.dl.data)[i] = 0.25f * static_cast<float>(i % 13);
      view.dl.ndim = static_cast<int32_t>(shape.size());
      view.dl.shape = shape.data();
      view.dtype = TENON_DT_FLOAT;
      view.byte_size = static_cast<uint64_t>(n) * 4;
      views_.push_back(view);
    }
    for (const auto& [input, values] : constants) {
      views_[input].dtype = TENON_DT_INT32;
      std::memcpy(views_[input].dl.data, values.data(), values.size() * 4);
    }
    for (auto& view : views_) pointers_.push_back(&view);
    const size_t n = pointers_.size() - 1;
    if (registration_->create != nullptr) Create(attributes);
    tenon_prepare_args prepare = {};
    prepare.inputs = pointers_.data();
    prepare.outputs = pointers_.data() + n;
    prepare.input_count = static_cast<int32_t>(n);
    prepare.output_count = 1;
    prepare.threads = 1;
    if (registration_->prepare != nullptr) {
      if (tenon_status* status = registration_->prepare(kernel_, &prepare)) {
        refusal_ = reinterpret_cast<tenon_status_box*>(status)->text;
        return;
      }
    }
    prepared_ = prepare.out_prepared;
    services_.parallel_for = [](tenon_frame*, int64_t total, double, tenon_range_function f, void* a) {
      f(a, 0, total);
    };
    services_.is_cancelled = [](tenon_frame*) -> uint32_t { return 0; };
    frame_.inputs = const_cast<const tenon_tensor_view* const*>(pointers_.data());
    frame_.outputs = pointers_.data() + n;
    frame_.input_count = prepare.input_count;
    frame_.output_count = 1;
    frame_.workspace_bytes = prepare.out_workspace_bytes;
    frame_.workspace = aligned_alloc(64, prepare.out_workspace_bytes + 64);
    frame_.services = &services_;
  }
  void Measure(benchmark::State& state) {
    if (!refusal_.empty()) state.SkipWithError(refusal_.c_str());
    for (auto _ : state) Require(registration_->run(kernel_, prepared_, &frame_));
  }

 private:
  void Create(const Attributes& attributes) {
    static const Attributes* current;
    current = &attributes;
    tenon_node_services services = {};
    services.attr = [](const tenon_node*, tenon_span name, tenon_attr_value* out) -> tenon_status* {
      const auto found = current->find(std::string(tenon::sdk::ToText(name)));
      if (found == current->end()) return tenon::sdk::Failure(TENON_NOT_FOUND, "no attribute ", name);
      static tenon_span text;
      text = tenon::sdk::ToSpan(found->second.text);
      const uint32_t kind = found->second.kind;
      out->kind = kind;
      out->count = (kind & TENON_ATTR_LIST) != 0 ? found->second.integers.size() : 1;
      out->data = kind == TENON_ATTR_STRING ? static_cast<const void*>(&text) : found->second.integers.data();
      return nullptr;
    };
    tenon_create_args args = {};
    args.node_services = &services;
    Require(registration_->create(&args, &kernel_));
  }

  std::string refusal_;  // why it is not measured
  const tenon_kernel_registration* registration_ = nullptr;
  tenon_kernel* kernel_ = nullptr;
  const tenon_prepared* prepared_ = nullptr;
  std::vector<Shape> shapes_;
  std::vector<tenon_tensor_view> views_;
  std::vector<tenon_tensor_view*> pointers_;
  tenon_frame_services services_ = {};
  tenon_frame frame_ = {};
};

Attribute Bool(bool value) { return {TENON_ATTR_BOOL, {value}, ""}; }

void Elementwise(benchmark::State& state, const char* op, const std::vector<Shape>& inputs, const Shape& out) {
  Bench bench(op, inputs, out);
  bench.Measure(state);
  int64_t n = 1;
  for (int64_t d : out) n *= d;
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK_CAPTURE(Elementwise, AddV2_scalar, "AddV2", {{}, {}}, {});
BENCHMARK_CAPTURE(Elementwise, AddV2_32x10_bias, "AddV2", {{32, 10}, {10}}, {32, 10});
BENCHMARK_CAPTURE(Elementwise, AddV2_1M, "AddV2", {{1 << 20}, {1 << 20}}, {1 << 20});
BENCHMARK_CAPTURE(Elementwise, Relu_32x32, "Relu", {{32, 32}}, {32, 32});
BENCHMARK_CAPTURE(Elementwise, Tanh_1M, "Tanh", {{1 << 20}}, {1 << 20});
BENCHMARK_CAPTURE(Elementwise, Exp_1M, "Exp", {{1 << 20}}, {1 << 20});
BENCHMARK_CAPTURE(Elementwise, Log_1M, "Log", {{1 << 20}}, {1 << 20});
BENCHMARK_CAPTURE(Elementwise, Rsqrt_1M, "Rsqrt", {{1 << 20}}, {1 << 20});
BENCHMARK_CAPTURE(Elementwise, Tanh_32x32, "Tanh", {{32, 32}}, {32, 32});
BENCHMARK_CAPTURE(Elementwise, Sigmoid_1M, "Sigmoid", {{1 << 20}}, {1 << 20});

void MatMul(benchmark::State& state) {
  const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  const bool ta = (state.range(3) & 1) != 0, tb = (state.range(3) & 2) != 0;
  Bench bench("MatMul", {ta ? Shape{k, m} : Shape{m, k}, tb ? Shape{n, k} : Shape{k, n}}, {m, n},
              {{"transpose_a", Bool(ta)}, {"transpose_b", Bool(tb)}});
  bench.Measure(state);
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(m * n * k),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
// m, k, n; transposes: 1 a, 2 b.
// The first rows are the products of two networks: 64-32-10 and the dense layers (512-64-10) of digits, batch 32.
BENCHMARK(MatMul)
    ->Args({32, 64, 32, 0})
    ->Args({32, 32, 10, 0})
    ->Args({32, 10, 32, 2})
    ->Args({64, 32, 32, 1})
    ->Args({32, 32, 10, 1})
    ->Args({32, 512, 64, 0})
    ->Args({512, 32, 64, 1})
    ->Args({32, 64, 512, 2})
    ->Args({32, 64, 10, 0})
    ->Args({64, 32, 10, 1})
    ->Args({32, 10, 64, 2})
    ->Args({8, 8, 8, 0})
    ->Args({16, 16, 16, 0})
    ->Args({32, 32, 32, 0})
    ->Args({64, 32, 64, 0})
    ->Args({64, 64, 64, 0})
    ->Args({1, 784, 512, 0})
    ->Args({1, 512, 784, 2})
    ->Args({128, 128, 128, 0})
    ->Args({8, 512, 512, 0})
    ->Args({512, 512, 512, 0})
    ->Args({128, 768, 768, 0})
    ->Args({256, 256, 256, 0})
    ->Args({1024, 1024, 1024, 0})
    ->Args({1024, 1024, 1024, 1})
    ->Args({1024, 1024, 1024, 2})
    ->Args({1024, 1024, 1024, 3});

Attribute List(std::vector<int64_t> values) { return {TENON_ATTR_INT | TENON_ATTR_LIST, std::move(values), ""}; }
Attribute Text(const char* text) { return {TENON_ATTR_STRING, {}, text}; }

// batch, size, in, out, kernel, stride; SAME padding, NHWC.
void Conv(benchmark::State& state, const char* op) {
  const int64_t n = state.range(0), size = state.range(1), in = state.range(2), out = state.range(3);
  const int64_t kernel = state.range(4), stride = state.range(5);
  const int64_t to = (size + stride - 1) / stride;
  const Shape x = {n, size, size, in}, w = {kernel, kernel, in, out}, y = {n, to, to, out};
  const Attributes attributes = {{"strides", List({1, stride, stride, 1})}, {"padding", Text("SAME")},
                                 {"data_format", Text("NHWC")}};
  const std::string name = op;
  Bench bench = name == "Conv2D"                ? Bench(op, {x, w}, y, attributes)
                : name == "Conv2DBackpropInput" ? Bench(op, {{4}, w, y}, x, attributes)
                                                : Bench(op, {x, {4}, y}, w, attributes);
  bench.Measure(state);
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(n * to * to * out * in * kernel * kernel),
                         benchmark::Counter::kIsIterationInvariantRate);
}
void ConvShapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({4, 8, 4, 8, 3, 1})
      ->Args({4, 8, 8, 8, 3, 1})
      ->Args({1, 8, 16, 32, 3, 1})
      ->Args({8, 8, 16, 16, 3, 1})
      ->Args({32, 8, 3, 8, 3, 1})
      ->Args({32, 8, 1, 16, 3, 1})
      ->Args({32, 8, 16, 32, 3, 1})
      ->Args({32, 4, 32, 64, 3, 1})
      // Few channels: LeNet-5, networks for CIFAR-10, first layers.
      ->Args({64, 28, 1, 6, 5, 1})
      ->Args({64, 14, 6, 16, 5, 1})
      ->Args({32, 32, 3, 32, 3, 1})
      ->Args({32, 32, 16, 16, 3, 1})
      ->Args({32, 32, 32, 32, 3, 1})
      ->Args({32, 16, 32, 64, 3, 1})
      ->Args({32, 7, 32, 64, 3, 1})
      ->Args({1, 28, 1, 6, 5, 1})
      ->Args({1, 14, 6, 16, 5, 1})
      ->Args({1, 224, 3, 32, 3, 2})
      ->Args({8, 112, 32, 64, 3, 1})
      ->Args({8, 204, 1, 32, 3, 1})
      ->Args({8, 56, 64, 64, 3, 1})
      ->Args({8, 14, 256, 256, 3, 1})
      ->Args({1, 56, 64, 256, 1, 1})
      ->Args({1, 224, 3, 64, 7, 2});
}
BENCHMARK_CAPTURE(Conv, Conv2D, "Conv2D")->Apply(ConvShapes);
BENCHMARK_CAPTURE(Conv, Conv2DBackpropInput, "Conv2DBackpropInput")->Apply(ConvShapes);
BENCHMARK_CAPTURE(Conv, Conv2DBackpropFilter, "Conv2DBackpropFilter")->Apply(ConvShapes);

void Pool(benchmark::State& state, const char* op) {
  const int64_t n = state.range(0), size = state.range(1), channels = state.range(2);
  Bench bench(op, {{n, size, size, channels}}, {n, size / 2, size / 2, channels},
              {{"ksize", List({1, 2, 2, 1})}, {"strides", List({1, 2, 2, 1})}, {"padding", Text("VALID")},
               {"data_format", Text("NHWC")}});
  bench.Measure(state);
  state.SetBytesProcessed(state.iterations() * n * size * size * channels * 5);
}
BENCHMARK_CAPTURE(Pool, MaxPool, "MaxPool")
    ->Args({64, 28, 6})
    ->Args({64, 10, 16})
    ->Args({32, 32, 32})
    ->Args({32, 8, 16})
    ->Args({8, 56, 64});
BENCHMARK_CAPTURE(Pool, AvgPool, "AvgPool")->Args({32, 8, 16})->Args({8, 56, 64});
// (orig_input, orig_output, grad).
void PoolGrad(benchmark::State& state) {
  const int64_t n = state.range(0), size = state.range(1), channels = state.range(2);
  const Shape x = {n, size, size, channels}, y = {n, size / 2, size / 2, channels};
  Bench bench("MaxPoolGrad", {x, y, y}, x,
              {{"ksize", List({1, 2, 2, 1})}, {"strides", List({1, 2, 2, 1})}, {"padding", Text("VALID")},
               {"data_format", Text("NHWC")}});
  bench.Measure(state);
  state.SetBytesProcessed(state.iterations() * n * size * size * channels * 10);
}
BENCHMARK(PoolGrad)
    ->Args({64, 28, 6})
    ->Args({64, 10, 16})
    ->Args({32, 32, 32})
    ->Args({32, 8, 16})
    ->Args({32, 8, 32})
    ->Args({8, 56, 64});
BENCHMARK_CAPTURE(Elementwise, Softmax_32x10, "Softmax", {{32, 10}}, {32, 10});
BENCHMARK_CAPTURE(Elementwise, Softmax_256x1000, "Softmax", {{256, 1000}}, {256, 1000});

// Reductions read their axes when they run.
void Reduce(benchmark::State& state, std::vector<int32_t> axes, const Shape& in, const Shape& out) {
  Bench bench("Sum", {in, {static_cast<int64_t>(axes.size())}}, out, {}, {{1, axes}});
  bench.Measure(state);
}
BENCHMARK_CAPTURE(Reduce, Sum_32, {0}, {32}, {});
BENCHMARK_CAPTURE(Reduce, Sum_32x10_0, {0}, {32, 10}, {10});
BENCHMARK_CAPTURE(Reduce, Sum_1M, {0}, {1 << 20}, {});
BENCHMARK_CAPTURE(Reduce, Sum_1024x1024_0, {0}, {1024, 1024}, {1024});

}  // namespace
