// SPDX-License-Identifier: Apache-2.0
// Random schedules of fills and copies over two devices with two queues each, against the same done one after the
// other.
//
// Every piece of work has a timeline of its own, and waits for those that it conflicts with (it reads what they write,
// or writes what they touch), also on its own queue. So memory has to end as if all had been done in order; and where
// one fails, exactly the work that depends on it, directly or not, must fail with it.
#include <random>

#include "tests/device/tested.h"

namespace tenon::device_test::schedule_test {
namespace {

constexpr int kBlocks = 8;  // 0-2 on device 0, 3-5 on device 1, 6 staging of device 0, 7 the host's
constexpr int kBytes = 64;
constexpr int kQueues = 4;
constexpr int kSteps = 30;

struct Step {
  int queue;
  int source;  // a block, or -1: a fill
  int target;
  uint8_t value;
  std::vector<int> after;
};

std::vector<Step> RandomSteps(std::mt19937& random) {
  std::vector<Step> steps;
  std::vector<int> last_write(kBlocks, -1);
  std::vector<std::vector<int>> reads(kBlocks);
  for (int i = 0; i < kSteps; ++i) {
    Step step = {};
    step.queue = static_cast<int>(random() % kQueues);
    const bool first_device = step.queue < 2;
    // Fills stand on queue 0 alone, so that their numbers do not depend on the race.
    if (step.queue == 0 && random() % 2 == 0) {
      step.source = -1;
      step.target = static_cast<int>(random() % 3);
      step.value = static_cast<uint8_t>(random());
    } else {
      const auto block = [&] {
        int b;
        do b = static_cast<int>(random() % kBlocks);
        while (b == 6 && !first_device);
        return b;
      };
      step.source = block();
      do step.target = block();
      while (step.target == step.source);
    }
    const auto depend = [&](int on) {
      if (on >= 0) step.after.push_back(on);
    };
    if (step.source >= 0) depend(last_write[step.source]);
    depend(last_write[step.target]);
    for (int reader : reads[step.target]) depend(reader);
    if (step.source >= 0) reads[step.source].push_back(i);
    reads[step.target].clear();
    last_write[step.target] = i;
    steps.push_back(std::move(step));
  }
  return steps;
}

struct Blocks {
  std::vector<std::vector<uint8_t>> bytes = std::vector<std::vector<uint8_t>>(kBlocks, std::vector<uint8_t>(kBytes));
};

// In order. fail: number of the fill that fails (from 1), 0 for none. Gives which steps fail.
std::vector<bool> Reference(const std::vector<Step>& steps, int fail, Blocks* blocks) {
  std::vector<bool> failed(steps.size(), false);
  int fills = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (int on : steps[i].after) failed[i] = failed[i] || failed[static_cast<size_t>(on)];
    if (failed[i]) continue;
    std::vector<uint8_t>& target = blocks->bytes[static_cast<size_t>(steps[i].target)];
    if (steps[i].source < 0) {
      std::fill(target.begin(), target.end(), steps[i].value);
      failed[i] = ++fills == fail;  // late: the bytes are written
    } else {
      target = blocks->bytes[static_cast<size_t>(steps[i].source)];
    }
  }
  return failed;
}

// Runs `count` schedules. fail: as for Reference, and the option that makes it so.
void RunSchedules(int count, uint32_t seed, int fail) {
  std::mt19937 random(seed);
  for (int n = 0; n < count; ++n) {
    const std::vector<Step> steps = RandomSteps(random);
    Blocks expected, real;
    for (auto& block : expected.bytes) {
      for (uint8_t& byte : block) byte = static_cast<uint8_t>(random());
    }
    real = expected;
    const std::vector<bool> failed = Reference(steps, fail, &expected);

    Settings settings = {{"devices", "2"}, {"memory_bytes", "65536"}, {"staging_bytes", "4096"}};
    if (fail > 0) settings.emplace_back("fail_late", "fill:" + std::to_string(fail));
    const Plugin plugin(settings);
    Device device0(plugin, 0), device1(plugin, 1);
    Device* devices[] = {&device0, &device0, &device1, &device1};
    tenon_queue* queues[kQueues];
    for (int q = 0; q < kQueues; ++q) queues[q] = devices[q]->Queue();
    std::vector<tenon_semaphore*> done;
    for (const Step& step : steps) done.push_back(devices[step.queue]->Semaphore());
    void* at[kBlocks];
    for (int b = 0; b < kBlocks; ++b) {
      at[b] = b < 3    ? device0.Memory(kBytes)
              : b < 6  ? device1.Memory(kBytes)
              : b == 6 ? device0.Memory(kBytes, 1)
                       : real.bytes[7].data();
      if (b < 6) (b < 3 ? device0 : device1).Upload(queues[b < 3 ? 0 : 2], real.bytes[static_cast<size_t>(b)], at[b]);
      if (b == 6) std::memcpy(at[b], real.bytes[6].data(), kBytes);
    }
    const auto device_of = [&](int block) {
      return block == 7 ? nullptr : block < 3 || block == 6 ? device0.device : device1.device;
    };
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      Submission submission = {{}, done[i], 1};
      for (int on : step.after) submission.waits.push_back({done[static_cast<size_t>(on)], 1});
      if (step.source < 0) {
        ASSERT_EQ(device0.Fill(queues[0], at[step.target], kBytes, step.value, submission), "");
      } else {
        ASSERT_EQ(devices[step.queue]->Copy(queues[step.queue], at[step.source], device_of(step.source),
                                            at[step.target], device_of(step.target), kBytes, submission),
                  "");
      }
    }
    for (tenon_queue* queue : queues) ASSERT_EQ(device0.Finish(queue), "");
    for (size_t i = 0; i < steps.size(); ++i) {
      const std::string got = device0.Wait(done[i], 1);
      const std::string want =
          failed[i] ? "INTERNAL: fill failed on TPU:0 (option fail_late=fill:" + std::to_string(fail) + ")" : "";
      ASSERT_EQ(got, want) << "step " << i << " of schedule " << n;
    }
    for (int b = 0; b < 7; ++b) {
      std::vector<uint8_t>& bytes = real.bytes[static_cast<size_t>(b)];
      if (b < 6) bytes = (b < 3 ? device0 : device1).Download<uint8_t>(queues[b < 3 ? 0 : 2], at[b], kBytes);
      if (b == 6) std::memcpy(bytes.data(), at[b], kBytes);
    }
    for (size_t b = 0; b < kBlocks; ++b)
      ASSERT_EQ(real.bytes[b], expected.bytes[b]) << "block " << b << " of schedule " << n;
  }
}

TEST(Schedules, ThousandRandomOnesEndAsIfDoneInOrder) { RunSchedules(1000, 1, 0); }

TEST(Schedules, RandomOnesWithALateFailureFailExactlyWhereTheyDependOnIt) {
  for (int fail = 1; fail <= 3; ++fail) RunSchedules(100, static_cast<uint32_t>(10 + fail), fail);
}

}  // namespace
}  // namespace tenon::device_test::schedule_test
