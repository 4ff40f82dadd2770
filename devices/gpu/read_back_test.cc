// SPDX-License-Identifier: Apache-2.0
// Kernels that wait for what their work counts: how such a wait ends, and what it does not hold up.
#include <thread>

#include "tests/device/values.h"

namespace tenon::device_test {
namespace {

// Where, run by a thread of its own on a queue that waits for a gate.
class Waiting {
 public:
  explicit Waiting(Bench& bench) : bench_(bench), gate(bench.device.Semaphore()), timeline(bench.device.Semaphore()) {
    const std::vector<float> values(5000, 1);
    input_.data = bench.device.Memory(values.size() * sizeof(float));
    bench.device.Upload(bench.queue, values, input_.data);
    EXPECT_EQ(bench.device.Barrier(bench.queue, {{{gate, 1}}, timeline, 1}), "");
    const tenon_node node = {"Where", {{"T", Type{TENON_DT_FLOAT}}}, {TENON_DT_FLOAT}, {TENON_DT_INT64}};
    kernel_ = bench.tested.Find(node);
    const tenon_create_args create = {TENON_HEAD(tenon_create_args), NodeServices(), &node, nullptr, nullptr, bench.device.device};
    EXPECT_EQ(Text(kernel_->create(&create, &object_)), "");
    x_ = ViewOf(TENON_DT_FLOAT, input_.dims, input_.data);
    out_ = ViewOf(TENON_DT_INT64, out_dims_, nullptr);
    prepare_ = {TENON_HEAD(tenon_prepare_args), inputs_, inputs_ + 1, 1, 1, TENON_PRECISION_STRICT, 1, bench.device.device, nullptr, 0};
    EXPECT_EQ(Text(kernel_->prepare(object_, &prepare_)), "");
    context.allocate = [this](uint64_t bytes) {
      ++allocations;
      return bench_.device.Memory(bytes);
    };
    context.output_dims.resize(1);
    frame_.struct_size = sizeof frame_;
    frame_.inputs = inputs_;
    frame_.outputs = outputs_;
    frame_.input_count = frame_.output_count = 1;
    frame_.workspace = bench.device.Memory(prepare_.out_workspace_bytes);
    frame_.device = bench.device.device;
    frame_.queue = bench.queue;
    frame_.timeline = timeline;
    frame_.label = Span("node");
    frame_.services = &Services();
    frame_.context = &context;
    thread_ = std::thread([this] { text_ = Text(kernel_->run(object_, prepare_.out_prepared, &frame_)); });
    while (questions == 0) std::this_thread::yield();  // it waits
  }
  ~Waiting() {
    kernel_->destroy_prepared(prepare_.out_prepared);
    kernel_->destroy(object_);
  }
  // How the run has ended.
  std::string End() {
    thread_.join();
    return text_;
  }
  Dimensions out_dims() const { return Dimensions(out_.dl.shape, out_.dl.shape + out_.dl.ndim); }

 private:
  static const tenon_frame_services& Services() {
    static const tenon_frame_services services = [] {
      tenon_frame_services s = *FrameServices();
      s.is_cancelled = [](tenon_frame*) -> uint32_t {
        ++questions;
        return is_cancelled ? 1 : 0;
      };
      return s;
    }();
    return services;
  }

  Bench& bench_;
  struct {
    std::vector<int64_t> dims = {5000};
    void* data = nullptr;
  } input_;
  std::vector<int64_t> out_dims_ = {0, 0};
  tenon_tensor_view x_ = {}, out_ = {};
  const tenon_tensor_view* inputs_[2] = {&x_, &out_};
  tenon_tensor_view* outputs_[1] = {&out_};
  tenon_prepare_args prepare_ = {};
  tenon_frame frame_ = {};
  const tenon_kernel_registration* kernel_ = nullptr;
  tenon_kernel* object_ = nullptr;
  std::string text_;
  std::thread thread_;

 public:
  static inline std::atomic<int> questions{0};
  static inline std::atomic<bool> is_cancelled{false};
  tenon_frame_context context = {};
  tenon_semaphore *gate, *timeline;
  int allocations = 0;
};

class ReadBack : public testing::Test {
 protected:
  ReadBack() {
    Waiting::questions = 0;
    Waiting::is_cancelled = false;
  }
};

TEST_F(ReadBack, WaitsForTheQueueAndLetsOthersSubmitMeanwhile) {
  Bench bench;
  Waiting where(bench);
  void* data = bench.device.Memory(8);
  EXPECT_EQ(bench.device.Fill(bench.queue, data, 8, 7), "");
  EXPECT_EQ(where.allocations, 0);
  EXPECT_EQ(Text(bench.device.driver->semaphore_signal(where.gate, 1)), "");
  EXPECT_EQ(where.End(), "");
  EXPECT_EQ(where.out_dims(), (Dimensions{5000, 1}));
  EXPECT_EQ(bench.device.Finish(bench.queue), "");
}

TEST_F(ReadBack, EndsWithItsStep) {
  Bench bench;
  Waiting where(bench);
  Waiting::is_cancelled = true;
  EXPECT_EQ(where.End(), "CANCELLED: the step ended while the host waited for GPU:0");
  EXPECT_EQ(where.allocations, 0);
  // What it gave to the queue is done later, and hurts nobody.
  EXPECT_EQ(Text(bench.device.driver->semaphore_signal(where.gate, 1)), "");
  EXPECT_EQ(bench.device.Finish(bench.queue), "");
}

TEST_F(ReadBack, EndsWithItsTimeline) {
  Bench bench;
  Waiting where(bench);
  bench.device.driver->semaphore_fail(where.timeline, Host()->status_new(TENON_ABORTED, Span("the step was aborted")));
  EXPECT_EQ(where.End(), "ABORTED: the step was aborted");
  EXPECT_EQ(where.allocations, 0);
  EXPECT_EQ(Text(bench.device.driver->semaphore_signal(where.gate, 1)), "");
  EXPECT_EQ(bench.device.Finish(bench.queue), "");
}

TEST_F(ReadBack, EndsWhenTheGpuIsLost) {
  Bench bench{{"devices", "1"}, {"cache", "off"}, {"lose_after", "200"}};
  Waiting where(bench);
  void* data = bench.device.Memory(8);
  tenon_queue* other = bench.device.Queue();
  std::string lost;
  for (int i = 0; i < 300 && lost.empty(); ++i) lost = bench.device.Fill(other, data, 8, 1);
  EXPECT_EQ(lost, "UNAVAILABLE: GPU:0 (Emulated GPU) is lost: it is lost (option lose_after=200)");
  EXPECT_EQ(where.End(), lost);
  EXPECT_EQ(where.allocations, 0);
}

}  // namespace
}  // namespace tenon::device_test
