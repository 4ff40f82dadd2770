// SPDX-License-Identifier: Apache-2.0
// For tests: steps around one place of the package, each a kernel over the fake host that may end later.
#ifndef TENON_OPS_DATA_FLOW_TESTING_STEPS_H_
#define TENON_OPS_DATA_FLOW_TESTING_STEPS_H_

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tenon/testing/kernel_case.h"

namespace tenon::ops {

using testing::KernelRunner;
using testing::Make;
using testing::Node;
using testing::Outcome;
using testing::PendingCall;
using testing::Tensor;
using testing::Texts;
using testing::Values;
using Pending = std::unique_ptr<PendingCall>;
using Shapes = std::vector<std::vector<int64_t>>;
using Attributes = std::map<std::string, testing::Attribute, std::less<>>;
using Types = std::vector<uint32_t>;

inline constexpr uint32_t kFloat = TENON_DT_FLOAT;

inline Tensor Floats(std::vector<float> values) { return Make<float>({static_cast<int64_t>(values.size())}, values); }

// Steps around one place, each a kernel that may end later.
class Steps {
 public:
  Steps() = default;
  Steps(const tenon_kernel_registration& maker, Attributes attributes) {
    Node node = {"Maker", {{"container", ""}, {"shared_name", "p"}}, {}, {TENON_DT_RESOURCE}};
    node.attributes.merge(attributes);
    made_ = step_.Run(maker, node, {});
    if (made_.ok()) handle_ = std::make_unique<Tensor>(std::move(step_.outputs[0]));
  }
  const Outcome& made() const { return made_; }
  Pending Start(const tenon_kernel_registration& kernel, Attributes attributes, std::vector<Tensor> inputs,
                Types outputs = {}) {
    Node node = {"Step", {{"container", ""}, {"shared_name", "p"}}, {}, std::move(outputs)};
    node.attributes.merge(attributes);
    std::vector<const Tensor*> all;
    if (handle_ != nullptr) all.push_back(handle_.get());
    for (Tensor& input : inputs) all.push_back(&kept_.emplace_back(std::move(input)));
    return step_.Start(kernel, node, all);
  }
  int32_t Number(const tenon_kernel_registration& kernel, Attributes attributes = {}) {
    const Pending asked = Start(kernel, std::move(attributes), {}, {TENON_DT_INT32});
    EXPECT_TRUE(asked->done() && asked->outcome().ok()) << asked->outcome().message;
    return Values<int32_t>(asked->outputs()[0])[0];
  }
  void Remove() { step_.ClearHandles(); }

 private:
  KernelRunner step_;
  Outcome made_;
  std::unique_ptr<Tensor> handle_;
  std::deque<Tensor> kept_;
};

inline void ExpectFailed(const Pending& call, uint32_t code, const std::string& words) {
  ASSERT_EQ(call->ends(), 1);
  EXPECT_EQ(call->outcome().code, code) << call->outcome().message;
  EXPECT_NE(call->outcome().message.find(words), std::string::npos) << call->outcome().message;
}
inline void ExpectDone(const Pending& call) {
  ASSERT_EQ(call->ends(), 1);
  EXPECT_TRUE(call->outcome().ok()) << call->outcome().message;
}
template <class T = float>
std::vector<T> Got(const Pending& call, size_t output = 0) {
  EXPECT_EQ(call->ends(), 1);
  EXPECT_TRUE(call->outcome().ok()) << call->outcome().message;
  return call->done() && call->outcome().ok() ? Values<T>(call->outputs()[output]) : std::vector<T>{};
}

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_TESTING_STEPS_H_
