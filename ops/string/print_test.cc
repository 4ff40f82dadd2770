// SPDX-License-Identifier: Apache-2.0
// What Print and PrintV2 write, and where they do not.
#include <gtest/gtest.h>

#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kPrintKernel, kPrintV2Kernel;
}  // namespace tenon::ops

namespace tenon::ops::print_test {
namespace {

using testing::KernelRunner;
using testing::Make;
using testing::Node;
using testing::Outcome;
using testing::Tensor;

struct Written {
  Outcome outcome;
  std::string error, output;
};
Written PrintWith(const tenon_kernel_registration& kernel, const Node& node, const std::vector<const Tensor*>& inputs) {
  Written written;
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  KernelRunner step;
  written.outcome = step.Run(kernel, node, inputs);
  written.output = ::testing::internal::GetCapturedStdout();
  written.error = ::testing::internal::GetCapturedStderr();
  return written;
}

Node PrintNode(int64_t first, int64_t summarize) {
  return {"Print",
          {{"message", std::string("now ")}, {"first_n", first}, {"summarize", summarize}},
          {TENON_DT_FLOAT, TENON_DT_FLOAT, TENON_DT_STRING},
          {TENON_DT_FLOAT}};
}

TEST(Print, WritesItsMessageAndTheFirstElementsOfEachTensor) {
  const Tensor input = Make<float>({}, {1}), numbers = Make<float>({2, 3}, {0.1F, 2, 1e10F, 4, 5, 6}),
               texts = testing::Strings({2}, {"a\n", "b"});
  const Written written = PrintWith(kPrintKernel, PrintNode(-1, 4), {&input, &numbers, &texts});
  EXPECT_EQ(written.outcome.text(), "");
  EXPECT_EQ(written.error, "now [[0.1 2 1e+10][4...]...][a\\n b]\n");
  EXPECT_EQ(written.output, "");
}

TEST(Print, WritesNothingAfterTheFirstTimes) {
  const Tensor input = Make<float>({}, {1}), numbers = Make<float>({1}, {2}), texts = testing::Strings({}, {"a"});
  const Written written = PrintWith(kPrintKernel, PrintNode(0, 3), {&input, &numbers, &texts});
  EXPECT_EQ(written.outcome.text(), "");
  EXPECT_EQ(written.error, "");
}

Node PrintV2Node(const std::string& stream, const std::string& end) {
  return {"PrintV2", {{"output_stream", stream}, {"end", end}}, {TENON_DT_STRING}, {}};
}

TEST(PrintV2, WritesWhereItIsToldTo) {
  const Tensor text = testing::Strings({}, {"words"});
  EXPECT_EQ(PrintWith(kPrintV2Kernel, PrintV2Node("stderr", "\n"), {&text}).error, "words\n");
  EXPECT_EQ(PrintWith(kPrintV2Kernel, PrintV2Node("stdout", "!"), {&text}).output, "words!");
}

TEST(PrintV2, RefusesFilesAndStreamsThatItDoesNotKnow) {
  const Tensor text = testing::Strings({}, {"words"});
  EXPECT_NE(PrintWith(kPrintV2Kernel, PrintV2Node("file:///tmp/never", "\n"), {&text})
                .outcome.text()
                .find("UNIMPLEMENTED: PrintV2 does not write files"),
            std::string::npos);
  EXPECT_NE(PrintWith(kPrintV2Kernel, PrintV2Node("printer", "\n"), {&text})
                .outcome.text()
                .find("Unknown output stream: printer"),
            std::string::npos);
}

}  // namespace
}  // namespace tenon::ops::print_test
