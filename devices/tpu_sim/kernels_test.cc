// SPDX-License-Identifier: Apache-2.0
// The kernels through their registrations: numbers, cycles, and that run() only gives work to the queue.
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string_view>

#include "model/cycle_model.h"
#include "tenon/dtype.h"
#include "tenon/graph.h"
#include "testing/plugin.h"

struct tenon_node {
  std::string op;
  std::map<std::string, uint8_t> bools;
};

namespace tenon::tpu_sim::testing {
namespace {

const tenon_node_services* NodeServices() {
  static const tenon_node_services services = [] {
    tenon_node_services s = {};
    s.struct_size = sizeof s;
    s.name = [](const tenon_node* node) -> tenon_span { return {node->op.data(), node->op.size()}; };
    s.op = s.name;
    s.attr = [](const tenon_node* node, tenon_span name, tenon_attr_value* out) -> tenon_status* {
      const auto found = node->bools.find(std::string(name.data, name.size));
      if (found == node->bools.end()) return Host()->status_new(TENON_NOT_FOUND, name);
      *out = {TENON_ATTR_BOOL, 0, 1, &found->second};
      return nullptr;
    };
    return s;
  }();
  return &services;
}

const tenon_kernel_registration* Find(std::string_view op) {
  const auto* package = static_cast<const tenon_kernel_package*>(Capability(TENON_CAPABILITY_KERNELS));
  for (uint64_t i = 0; i < package->count; ++i) {
    const tenon_kernel_registration* r = package->registrations[i];
    if (std::string_view(r->op.data, r->op.size) == op) return r;
  }
  return nullptr;
}

// A tensor in device memory, as a kernel sees it.
struct Tensor {
  Tensor(uint32_t dtype, std::vector<int64_t> dims, void* data) : shape(std::move(dims)) {
    view.dl.data = data;
    view.dl.ndim = static_cast<int32_t>(shape.size());
    view.dl.shape = shape.data();
    view.dtype = dtype;
    view.byte_size = dtype == TENON_DT_FLOAT || dtype == TENON_DT_INT32 ? 4 : 2;
    for (int64_t dim : shape) view.byte_size *= static_cast<uint64_t>(dim);
  }
  Tensor(const Tensor&) = delete;
  std::vector<int64_t> shape;
  tenon_tensor_view view = {};
};

// One node's kernel on one device: created, prepared for its tensors, run any number of times.
class Kernel {
 public:
  Kernel(Handle& device, const std::string& op, std::vector<const Tensor*> inputs, Tensor* output,
         std::map<std::string, uint8_t> bools = {}, uint32_t precision = TENON_PRECISION_STRICT)
      : registration_(Find(op)), device_(device.device) {
    for (const Tensor* tensor : inputs) inputs_.push_back(&tensor->view);
    outputs_.push_back(&output->view);
    node_ = {op, std::move(bools)};
    const tenon_create_args create = {TENON_HEAD(tenon_create_args), NodeServices(), &node_, nullptr, nullptr, device.device};
    EXPECT_EQ(Text(registration_->create(&create, &kernel_)), "");
    for (const auto* view : inputs_) shapes_.push_back(*view);
    shapes_.push_back(output->view);
    for (auto& shape : shapes_) shape.dl.data = nullptr;
    for (size_t i = 0; i < inputs_.size(); ++i) planned_.push_back(&shapes_[i]);
    const tenon_tensor_view* planned_output = &shapes_.back();
    tenon_prepare_args prepare = {TENON_HEAD(tenon_prepare_args), planned_.data(), &planned_output,
                                  static_cast<int32_t>(planned_.size()), 1, precision, 1, device.device, nullptr, 0};
    if (registration_->prepare == nullptr) return;
    prepared_text = Text(registration_->prepare(kernel_, &prepare));
    prepared_ = prepare.out_prepared;
  }
  ~Kernel() {
    if (prepared_ != nullptr) registration_->destroy_prepared(prepared_);
    registration_->destroy(kernel_);
  }
  std::string Run(tenon_queue* queue, tenon_semaphore* timeline = nullptr) {
    tenon_frame frame = {};
    frame.struct_size = sizeof frame;
    frame.inputs = inputs_.data();
    frame.outputs = outputs_.data();
    frame.input_count = static_cast<int32_t>(inputs_.size());
    frame.output_count = 1;
    frame.device = device_;
    frame.queue = queue;
    frame.timeline = timeline;
    frame.label = Span("node");
    return Text(registration_->run(kernel_, prepared_, &frame));  // the frame is gone before the work is done
  }
  std::string prepared_text;

 private:
  const tenon_kernel_registration* registration_;
  tenon_device* device_;
  tenon_node node_;
  tenon_kernel* kernel_ = nullptr;
  tenon_prepared* prepared_ = nullptr;
  std::vector<const tenon_tensor_view*> inputs_, planned_;
  std::vector<tenon_tensor_view*> outputs_;
  std::vector<tenon_tensor_view> shapes_;
};

std::vector<float> Random(std::mt19937& random, size_t count) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(count);
  for (float& value : out) value = uniform(random);
  return out;
}

// Rounded to 8 bits of mantissa in decimal arithmetic, not by its bits.
float Rounded(float value) {
  if (value == 0) return value;
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8));
}

struct Sizes {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

// The product as the array of `rows` rows sums it: each fold from its first row on, the folds in order.
std::vector<float> ByFolds(const Sizes& s, int64_t rows, std::vector<float> a, std::vector<float> b, bool round) {
  if (round) {
    for (float& x : a) x = Rounded(x);
    for (float& x : b) x = Rounded(x);
  }
  std::vector<float> out;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      float total = 0;
      for (int64_t fold = 0; fold < s.k; fold += rows) {
        float sum = 0;
        for (int64_t k = fold; k < std::min(fold + rows, s.k); ++k) {
          const float left = a[static_cast<size_t>(s.transpose_a ? k * s.m + i : i * s.k + k)];
          const float right = b[static_cast<size_t>(s.transpose_b ? j * s.k + k : k * s.n + j)];
          volatile float product = left * right;  // rounded by itself
          sum += product;
        }
        total += sum;
      }
      out.push_back(total);
    }
  }
  return out;
}

// Through the device; also gives the span.
std::vector<float> Multiply(const Settings& settings, const Sizes& s, const std::vector<float>& a, const std::vector<float>& b,
                            uint32_t precision, tenon_profile_span* out_span) {
  const Plugin plugin(settings);
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  const auto bytes = [](int64_t n) { return static_cast<uint64_t>(n) * 4; };
  Tensor left(TENON_DT_FLOAT, s.transpose_a ? std::vector<int64_t>{s.k, s.m} : std::vector<int64_t>{s.m, s.k}, device.Memory(bytes(s.m * s.k)));
  Tensor right(TENON_DT_FLOAT, s.transpose_b ? std::vector<int64_t>{s.n, s.k} : std::vector<int64_t>{s.k, s.n}, device.Memory(bytes(s.k * s.n)));
  Tensor out(TENON_DT_FLOAT, {s.m, s.n}, device.Memory(bytes(s.m * s.n)));
  device.Upload(queue, a, left.view.dl.data);
  device.Upload(queue, b, right.view.dl.data);
  Kernel kernel(device, "MatMul", {&left, &right}, &out, {{"transpose_a", s.transpose_a}, {"transpose_b", s.transpose_b}}, precision);
  EXPECT_EQ(kernel.prepared_text, "");
  EXPECT_EQ(kernel.Run(queue), "");
  EXPECT_EQ(device.Finish(queue), "");
  *out_span = device.Profile().back();
  return device.Download<float>(queue, out.view.dl.data, static_cast<size_t>(s.m * s.n));
}

class MatMul : public ::testing::TestWithParam<Sizes> {};

TEST_P(MatMul, GivesTheSumsOfTheArrayBitForBit) {
  const Sizes s = GetParam();
  std::mt19937 random(5);
  const auto a = Random(random, static_cast<size_t>(s.m * s.k)), b = Random(random, static_cast<size_t>(s.k * s.n));
  for (const bool round : {false, true}) {
    tenon_profile_span span;
    const auto got = Multiply({{"rows", "8"}, {"columns", "8"}, {"precision", round ? "bfloat16" : "exact"}}, s, a, b, 0, &span);
    EXPECT_EQ(got, ByFolds(s, 8, a, b, round));
    // And what it took is what the model says.
    Machine machine;
    machine.rows = machine.columns = 8;
    Product product;
    product.m = s.m;
    product.n = s.n;
    product.k = s.k;
    product.input_bytes = 4;
    product.passes = round ? 1 : kFloatPasses;
    const Cycles cycles = MatrixCycles(machine, product);
    EXPECT_STREQ(span.name, "node");
    EXPECT_STREQ(span.kind, "kernel");
    EXPECT_EQ(span.end_tick - span.begin_tick, static_cast<uint64_t>(cycles.total() + 700));  // and the launch
    const std::string matrix = cycles.matrix == 0 ? "load " : "matrix " + std::to_string(cycles.matrix) + ",";
    EXPECT_TRUE(std::string_view(span.detail).starts_with(matrix)) << span.detail;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, MatMul,
                         ::testing::Values(Sizes{1, 1, 1, false, false}, Sizes{3, 5, 7, false, false}, Sizes{16, 16, 16, true, false},
                                           Sizes{9, 20, 33, false, true}, Sizes{40, 17, 65, true, true}, Sizes{2, 3, 0, false, false}));

TEST(Precision, FollowsTheStepsPolicyUnlessTheDeviceSaysOtherwise) {
  const Sizes s = {4, 4, 20, false, false};
  std::mt19937 random(6);
  const auto a = Random(random, 80), b = Random(random, 80);
  const auto exact = ByFolds(s, 128, a, b, false), rounded = ByFolds(s, 128, a, b, true);
  ASSERT_NE(exact, rounded);
  tenon_profile_span span;
  EXPECT_EQ(Multiply({}, s, a, b, TENON_PRECISION_STRICT, &span), exact);
  EXPECT_EQ(Multiply({}, s, a, b, TENON_PRECISION_ALLOW_TF32, &span), exact);
  EXPECT_EQ(Multiply({}, s, a, b, TENON_PRECISION_ALLOW_BFLOAT16, &span), rounded);
  EXPECT_EQ(Multiply({{"precision", "exact"}}, s, a, b, TENON_PRECISION_ALLOW_BFLOAT16, &span), exact);
  EXPECT_EQ(Multiply({{"precision", "bfloat16"}}, s, a, b, TENON_PRECISION_STRICT, &span), rounded);
}

TEST(Precision, ExactIsCloseToTheTrueProduct) {
  const Sizes s = {50, 60, 300, false, false};
  std::mt19937 random(7);
  const auto a = Random(random, 15000), b = Random(random, 18000);
  tenon_profile_span span;
  const auto got = Multiply({}, s, a, b, 0, &span);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < s.k; ++k) {
        const double term = static_cast<double>(a[static_cast<size_t>(i * s.k + k)]) * b[static_cast<size_t>(k * s.n + j)];
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(got[static_cast<size_t>(i * s.n + j)], sum, size * 1e-5);
    }
  }
}

TEST(MatMul, InBfloat16RoundsItsOutputOnce) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  Tensor a(TENON_DT_BFLOAT16, {1, 3}, device.Memory(6)), b(TENON_DT_BFLOAT16, {3, 1}, device.Memory(6));
  Tensor out(TENON_DT_BFLOAT16, {1, 1}, device.Memory(2));
  // 256 + 1 + 1 is 258; had every sum been rounded to 8 bits it would be 256.
  device.Upload<uint16_t>(queue, {0x4380, 0x3F80, 0x3F80}, a.view.dl.data);
  device.Upload<uint16_t>(queue, {0x3F80, 0x3F80, 0x3F80}, b.view.dl.data);
  Kernel kernel(device, "MatMul", {&a, &b}, &out, {{"transpose_a", 0}, {"transpose_b", 0}});
  EXPECT_EQ(kernel.Run(queue), "");
  EXPECT_EQ(device.Download<uint16_t>(queue, out.view.dl.data, 1)[0], 0x4381);
}

TEST(MatMul, RefusesShapesThatDoNotFit) {
  const Plugin plugin;
  Handle device(plugin, 0);
  Tensor a(TENON_DT_FLOAT, {2, 3}, nullptr), b(TENON_DT_FLOAT, {4, 2}, nullptr), v(TENON_DT_FLOAT, {3}, nullptr);
  Tensor out(TENON_DT_FLOAT, {2, 2}, nullptr);
  const std::map<std::string, uint8_t> plain = {{"transpose_a", 0}, {"transpose_b", 0}};
  EXPECT_EQ(Kernel(device, "MatMul", {&a, &b}, &out, plain).prepared_text,
            "INVALID_ARGUMENT: the inner dims of [2,3] and [4,2] differ");
  EXPECT_EQ(Kernel(device, "MatMul", {&a, &v}, &out, plain).prepared_text,
            "INVALID_ARGUMENT: matrices have 2 dims; the shapes are [2,3] and [3]");
}

// ---- Element-wise ----

TEST(Elementwise, BroadcastsEitherInput) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  Tensor a(TENON_DT_FLOAT, {2, 1, 3}, device.Memory(24)), b(TENON_DT_FLOAT, {2, 1}, device.Memory(8));
  Tensor out(TENON_DT_FLOAT, {2, 2, 3}, device.Memory(48));
  device.Upload<float>(queue, {1, 2, 3, 4, 5, 6}, a.view.dl.data);
  device.Upload<float>(queue, {10, 20}, b.view.dl.data);
  Kernel add(device, "AddV2", {&a, &b}, &out);
  EXPECT_EQ(add.Run(queue), "");
  EXPECT_EQ(device.Download<float>(queue, out.view.dl.data, 12),
            (std::vector<float>{11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26}));
  Kernel multiply(device, "Mul", {&b, &a}, &out);
  EXPECT_EQ(multiply.Run(queue), "");
  EXPECT_EQ(device.Download<float>(queue, out.view.dl.data, 12),
            (std::vector<float>{10, 20, 30, 20, 40, 60, 40, 50, 60, 80, 100, 120}));
}

TEST(Elementwise, TakesScalarsAndEmptyTensors) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  Tensor a(TENON_DT_FLOAT, {}, device.Memory(4)), b(TENON_DT_FLOAT, {}, device.Memory(4)), out(TENON_DT_FLOAT, {}, device.Memory(4));
  device.Upload<float>(queue, {3}, a.view.dl.data);
  device.Upload<float>(queue, {4}, b.view.dl.data);
  Kernel multiply(device, "Mul", {&a, &b}, &out);
  EXPECT_EQ(multiply.Run(queue), "");
  EXPECT_EQ(device.Download<float>(queue, out.view.dl.data, 1)[0], 12);
  Tensor none(TENON_DT_FLOAT, {0, 3}, nullptr), row(TENON_DT_FLOAT, {3}, device.Memory(12)), none_out(TENON_DT_FLOAT, {0, 3}, nullptr);
  Kernel add(device, "AddV2", {&none, &row}, &none_out);
  EXPECT_EQ(add.prepared_text, "");
  EXPECT_EQ(add.Run(queue), "");
  EXPECT_EQ(device.Finish(queue), "");
}

TEST(Elementwise, RefusesShapesThatDoNotBroadcast) {
  const Plugin plugin;
  Handle device(plugin, 0);
  Tensor a(TENON_DT_FLOAT, {2, 3}, nullptr), b(TENON_DT_FLOAT, {2}, nullptr), out(TENON_DT_FLOAT, {2, 3}, nullptr);
  EXPECT_EQ(Kernel(device, "AddV2", {&a, &b}, &out).prepared_text, "INVALID_ARGUMENT: a shape [2] does not broadcast to [2,3]");
}

TEST(Elementwise, ReluKeepsNanAndWorksInPlace) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  Tensor x(TENON_DT_FLOAT, {4}, device.Memory(16));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  device.Upload<float>(queue, {-1, 2, nan, -0.0f}, x.view.dl.data);
  Kernel relu(device, "Relu", {&x}, &x);
  EXPECT_EQ(relu.Run(queue), "");
  const auto got = device.Download<float>(queue, x.view.dl.data, 4);
  EXPECT_EQ(got[0], 0);
  EXPECT_EQ(got[1], 2);
  EXPECT_TRUE(std::isnan(got[2]));
}

TEST(Elementwise, IdentityCopiesAnyType) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  Tensor x(TENON_DT_INT32, {3}, device.Memory(12)), y(TENON_DT_INT32, {3}, device.Memory(12));
  device.Upload<int32_t>(queue, {1, -2, 3}, x.view.dl.data);
  Kernel identity(device, "Identity", {&x}, &y);
  EXPECT_EQ(identity.Run(queue), "");
  EXPECT_EQ(device.Download<int32_t>(queue, y.view.dl.data, 3), (std::vector<int32_t>{1, -2, 3}));
}

// ---- On the queue ----

TEST(Kernels, ReturnBeforeTheirWorkIsDone) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  tenon_queue* reader = device.Queue();
  tenon_semaphore* gate = device.Semaphore();
  Tensor x(TENON_DT_FLOAT, {2}, device.Memory(8)), y(TENON_DT_FLOAT, {2}, device.Memory(8));
  device.Upload<float>(queue, {1, 2}, x.view.dl.data);
  device.Upload<float>(queue, {0, 0}, y.view.dl.data);
  EXPECT_EQ(device.Barrier(queue, {{{gate, 1}}}), "");
  Kernel add(device, "AddV2", {&x, &x}, &y);
  EXPECT_EQ(add.Run(queue), "");
  EXPECT_EQ(device.Download<float>(reader, y.view.dl.data, 2), (std::vector<float>{0, 0}));
  EXPECT_EQ(Text(plugin.driver->semaphore_signal(gate, 1)), "");
  EXPECT_EQ(device.Finish(queue), "");
  EXPECT_EQ(device.Download<float>(reader, y.view.dl.data, 2), (std::vector<float>{2, 4}));
}

TEST(Kernels, ThatFailLateFailTheirTimelineAlone) {
  const Plugin plugin{{"fail_late", "AddV2:2"}};
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  Tensor x(TENON_DT_FLOAT, {2}, device.Memory(8)), y(TENON_DT_FLOAT, {2}, device.Memory(8));
  Kernel add(device, "AddV2", {&x, &x}, &y);
  std::vector<tenon_semaphore*> steps;
  for (int step = 0; step < 3; ++step) {
    steps.push_back(device.Semaphore());
    EXPECT_EQ(add.Run(queue, steps.back()), "");
    EXPECT_EQ(device.Barrier(queue, {{}, steps.back(), 1}), "");
  }
  EXPECT_EQ(device.Wait(steps[0], 1), "");
  EXPECT_EQ(device.Wait(steps[1], 1), "INTERNAL: AddV2 'node' failed on TPU:0 (option fail_late=AddV2:2)");
  EXPECT_EQ(device.Wait(steps[2], 1), "");
}

TEST(Kernels, RefuseHostMemoryOtherDevicesAndFramesWithoutAQueue) {
  const Plugin plugin{{"devices", "2"}};
  Handle device(plugin, 0), other(plugin, 1);
  tenon_queue* queue = device.Queue();
  std::vector<float> host(2);
  Tensor x(TENON_DT_FLOAT, {2}, device.Memory(8)), y(TENON_DT_FLOAT, {2}, device.Memory(8));
  Tensor h(TENON_DT_FLOAT, {2}, host.data()), far(TENON_DT_FLOAT, {2}, other.Memory(8));
  EXPECT_EQ(Kernel(device, "AddV2", {&x, &h}, &y).Run(queue),
            "INVALID_ARGUMENT: input 1 of a kernel on TPU:0, of 8 bytes, is no device memory");
  EXPECT_EQ(Kernel(device, "AddV2", {&x, &far}, &y).Run(queue),
            "INVALID_ARGUMENT: input 1 of a kernel on TPU:0, of 8 bytes, is in the memory of TPU:1");
  EXPECT_EQ(Kernel(device, "AddV2", {&x, &x}, &y).Run(nullptr), "FAILED_PRECONDITION: AddV2 runs on a TPU; its frame has no queue");
}

TEST(Kernels, AreRegisteredForTheDeviceType) {
  for (const char* op : {"MatMul", "AddV2", "Mul", "Relu", "Identity"}) {
    const tenon_kernel_registration* r = Find(op);
    ASSERT_NE(r, nullptr) << op;
    EXPECT_EQ(std::string_view(r->device_type.data, r->device_type.size), "TPU");
  }
}

}  // namespace
}  // namespace tenon::tpu_sim::testing
