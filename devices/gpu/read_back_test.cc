// SPDX-License-Identifier: Apache-2.0
// Kernels that wait for what their work counts: how such a wait ends, and what it does not hold up.
#include <thread>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

// Where, run by a thread of its own on a queue that waits for a gate.
class Waiting {
 public:
  explicit Waiting(Bench& bench)
      : gate(bench.device.Semaphore()),
        timeline(bench.device.Semaphore()),
        input_(bench.Uploaded(Vector(std::vector<float>(5000, 1)))),
        kernel_(*FindKernel(bench.tested, node_)),
        object_(kernel_, node_, step_, bench.device.device) {
    EXPECT_EQ(bench.device.Barrier(bench.queue, {{{gate, 1}}, timeline, 1}), "");
    step_.is_cancelled = [] {
      ++questions;
      return is_cancelled.load();
    };
    RunOptions options;
    options.place = bench.PlaceOf(timeline);
    options.place.allocate = [this, allocate = options.place.allocate](uint64_t bytes, const Dimensions& dims) {
      allocations += dims.empty() ? 0 : 1;  // a workspace has none
      return allocate(bytes, dims);
    };
    thread_ = std::thread([this, options] {
      call_ = std::make_unique<Call>(kernel_, object_, node_, step_, std::vector<tenon_tensor_view>{input_.view()},
                                     std::vector<tenon_tensor_view>(1), options);
    });
    while (questions == 0) std::this_thread::yield();  // it waits
  }
  // How the run has ended.
  std::string End() {
    thread_.join();
    return call_->outcome().text();
  }
  Dimensions out_dims() const {
    const tenon_tensor_view& out = call_->output_views()[0];
    return Dimensions(out.dl.shape, out.dl.shape + out.dl.ndim);
  }

  static inline std::atomic<int> questions{0};
  static inline std::atomic<bool> is_cancelled{false};
  tenon_semaphore *gate, *timeline;
  std::atomic<int> allocations{0};

 private:
  const Node node_ = {"Where", {{"T", Type{TENON_DT_FLOAT}}}, {TENON_DT_FLOAT}, {TENON_DT_INT64}};
  Step step_;
  const Tensor input_;
  const tenon_kernel_registration& kernel_;
  const KernelObject object_;
  std::unique_ptr<Call> call_;
  std::thread thread_;
};

class ReadBack : public ::testing::Test {
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
