// SPDX-License-Identifier: Apache-2.0
// Floats that go from task to task in half their bytes: to the bit what cutting or rounding gives, half of what
// travels, and nothing else. Covers H10.
#include <bit>
#include <limits>

#include "tests/cluster/local_cluster.h"
#include "tests/fakes/counting_transport.h"
#include "tests/fakes/plugin_capability.h"

namespace tenon::engine::transfer_precision_test {
namespace {

constexpr int64_t kCount = 4096;

const tenon_test_counted& Counted() {
  static const auto* const table = static_cast<const tenon_test_counted*>(
      fakes::CapabilityOf(fakes::PluginOf(TENON_TEST_COUNTED_PLUGIN), TENON_TEST_COUNTED));
  return *table;
}

// Numbers of all sizes and signs, and what needs care: infinities, a NaN whose bits lie at the end, the largest,
// subnormal ones, zeros.
std::vector<float> Numbers() {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               0x1.010p0f,
                               0x1.020p0f,
                               0x1.030p0f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::bit_cast<float>(0x7F80'0001u),
                               std::bit_cast<float>(0xFFC1'2345u),
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::denorm_min(),
                               0x1p-130f};
  uint32_t state = 1;
  while (values.size() < static_cast<size_t>(kCount))
    values.push_back(std::bit_cast<float>(state = state * 1664525u + 1013904223u));
  return values;
}

// What is no number stays none, by a bit that is never cut.
uint32_t Cut(uint32_t bits) {
  const bool nan = (bits & 0x7FFF'FFFF) > 0x7F80'0000;
  return (bits & 0xFFFF'0000) | (nan ? 0x0040'0000 : 0);
}
// To the nearest number of sixteen bits, of two the even one.
uint32_t Rounded(uint32_t bits) {
  if ((bits & 0x7FFF'FFFF) > 0x7F80'0000) return Cut(bits);
  const uint32_t below = bits & 0xFFFF'0000, rest = bits & 0xFFFF;
  return rest > 0x8000 || (rest == 0x8000 && (below & 0x1'0000) != 0) ? below + 0x1'0000 : below;
}

struct Sent {
  std::vector<float> floats;
  std::vector<double> doubles;
  uint64_t bytes = 0;  // that went, of any kind
};

Sent Send(const LocalCluster& cluster, TransferPrecision precision) {
  Graph g(TheRuntime());
  const std::vector<float> numbers = Numbers();
  std::vector<double> doubles;
  for (int64_t i = 0; i < kCount; ++i) doubles.push_back(1.0 / static_cast<double>(i + 3));
  Output f = g.Placeholder("f", DType::kFloat, {kCount}), d = g.Placeholder("d", DType::kDouble, {kCount});
  for (const char* task : {"/job:worker/task:0", "/job:worker/task:1"}) {
    const auto on = g.Device(task);
    f = g.Op("Identity", {f});
    d = g.Op("Identity", {d});
  }
  SessionOptions options;
  options.debug.transfer_precision = precision;
  const Session session = cluster.Client(g, options);
  Sent sent;
  for (int step = 0; step < 2; ++step) {  // the first one brings the graph, too
    const uint64_t before = Counted().bytes();
    const auto values = session.Run(
        {{"f", *Tensor::From(numbers, Shape{kCount})}, {"d", *Tensor::From(doubles, Shape{kCount})}}, {f, d});
    EXPECT_TRUE(values.ok()) << values.status();
    if (!values.ok()) return sent;
    sent = {Values<float>((*values)[0]), Values<double>((*values)[1]), Counted().bytes() - before};
  }
  EXPECT_EQ(sent.doubles, doubles) << "doubles go whole";
  return sent;
}

TEST(TransferPrecision, HalvesWhatFloatsTakeBetweenTasks) {
  ASSERT_TRUE(TheRuntime().LoadPlugin(TENON_TEST_COUNTED_PLUGIN).ok());
  const LocalCluster cluster("counted://precision", {{"worker", 2}}, {TENON_TEST_COUNTED_PLUGIN});
  const std::vector<float> numbers = Numbers();
  const Sent whole = Send(cluster, TransferPrecision::kFull), cut = Send(cluster, TransferPrecision::kTruncated),
             rounded = Send(cluster, TransferPrecision::kNearest);
  for (const Sent* sent : {&whole, &cut, &rounded}) ASSERT_EQ(sent->floats.size(), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(numbers[i]);
    EXPECT_EQ(std::bit_cast<uint32_t>(whole.floats[i]), bits);
    EXPECT_EQ(std::bit_cast<uint32_t>(cut.floats[i]), Cut(bits)) << std::hex << bits;
    EXPECT_EQ(std::bit_cast<uint32_t>(rounded.floats[i]), Rounded(bits)) << std::hex << bits;
  }
  EXPECT_GE(whole.bytes, static_cast<uint64_t>(kCount) * 12);
  EXPECT_EQ(whole.bytes - cut.bytes, static_cast<uint64_t>(kCount) * 2);
  EXPECT_EQ(rounded.bytes, cut.bytes);
}

}  // namespace
}  // namespace tenon::engine::transfer_precision_test
