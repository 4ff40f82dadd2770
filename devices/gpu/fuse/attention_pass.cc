// SPDX-License-Identifier: Apache-2.0
#include "fuse/attention_pass.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "driver.h"
#include "fuse/attention.h"
#include "fuse/attention_gradient_pattern.h"
#include "fuse/executable.h"
#include "tenon/sdk/answer.h"
#include "tenon/sdk/op/graph_pass.h"

namespace tenon::gpu {
namespace {

class Pass {
 public:
  Pass(sdk::PassContext& p, const tenon_graph_pass_args& args)
      : p_(p), cursor_(*args.cursor), graph_(cursor_, dims_) {}

  void Run() {
    for (const int64_t id : Softmaxes()) Try(id);
  }
  std::vector<std::vector<int64_t>> Find() {
    std::vector<std::vector<int64_t>> found;
    for (const int64_t id : Softmaxes()) {
      std::vector<int64_t> nodes = NodesOf(id);
      if (!nodes.empty()) found.push_back(std::move(nodes));
    }
    return found;
  }

 private:
  std::vector<int64_t> Softmaxes() {
    std::vector<int64_t> softmaxes;
    for (int64_t id = 0, count = p_.node_count(); id < count; ++id) {
      if (graph_.OpOf(id) == "Softmax" && p_.Runs(id) &&
          p_.DeviceOf(id).find(sdk::Concat("/device:", kDeviceType, ":")) != std::string::npos)
        softmaxes.push_back(id);
    }
    if (!softmaxes.empty()) ListReaders();
    return softmaxes;
  }
  void ListReaders() {
    const int64_t count = p_.node_count();
    readers_.resize(static_cast<size_t>(count));
    for (int64_t id = 0; id < count; ++id) {
      for (int32_t i = 0; i < graph_.InputCount(id); ++i) {
        const tenon_output source = graph_.Input(id, i);
        if (source.node >= 0) readers_[static_cast<size_t>(source.node)].push_back(id);
      }
    }
  }

  // Whether the step runs it on the device.
  bool MayTake(int64_t id, const std::string& device) const { return p_.Runs(id) && p_.DeviceOf(id) == device; }
  const std::vector<int64_t>& ReadersOf(int64_t id) const { return readers_[static_cast<size_t>(id)]; }
  std::optional<AttentionGradientPattern> FindGradient(int64_t softmax, const std::string& device) const {
    return FindAttentionGradient(
        cursor_, softmax, [&](int64_t id) { return ReadersOf(id); }, [&](int64_t id) { return MayTake(id, device); },
        dims_);
  }

  // As they are claimed (NodesOfAttention, NodesOfAttentionGradient).
  std::vector<int64_t> NodesOf(int64_t softmax) const {
    const std::string device = p_.DeviceOf(softmax);
    if (ReadersOf(softmax).size() != 1) {
      const auto gradient = FindGradient(softmax, device);
      return gradient.has_value() && gradient->of.values < 0 ? gradient->nodes : std::vector<int64_t>();
    }
    const int64_t values = ReadersOf(softmax).front();
    if (!MayTake(values, device)) return {};
    const auto forward = FindAttention(
        cursor_, softmax, values, [&](int64_t id) { return MayTake(id, device) && ReadersOf(id).size() == 1; }, dims_);
    return forward.has_value() ? forward->nodes : std::vector<int64_t>();
  }

  void Try(int64_t softmax) {
    const std::string device = p_.DeviceOf(softmax);
    const auto may_take = [&](int64_t id) { return MayTake(id, device); };
    const auto gradient = FindGradient(softmax, device);
    if (!gradient.has_value() || gradient->of.values < 0 || !may_take(gradient->of.values)) return;
    const auto forward = FindAttention(cursor_, softmax, gradient->of.values, may_take, dims_);
    if (forward.has_value()) AddForward(gradient->of, device);
  }

  // of.nodes: from the softmax to the scores.
  void AddForward(const AttentionPattern& of, const std::string& device) {
    std::vector<int64_t> ids(of.nodes.rbegin(), of.nodes.rend());
    ids.push_back(of.values);
    p_.Begin(of.values, device);
    std::map<int64_t, int64_t> added;
    for (const int64_t id : ids) {
      std::vector<sdk::Output> inputs;
      for (int32_t i = 0; i < graph_.InputCount(id); ++i) {
        inputs.push_back(graph_.Input(id, i));
        if (const auto found = added.find(inputs.back().node); found != added.end()) inputs.back().node = found->second;
      }
      added[id] = p_.Like(id, inputs);
    }
    p_.Explain(of.softmax, "attention: the gradients compute it again, the forward pass has its own");
    p_.Replace(of.values, {sdk::Output{added[of.values], 0, 0}});
  }

  sdk::PassContext& p_;
  const tenon_graph_cursor& cursor_;
  const DimsOfEdge dims_ = KnownDims(cursor_);
  const AttentionGraph graph_;
  ReaderLists readers_;
};

bool Compiles(const tenon_graph_pass_args& args) { return TENON_HAS(&args, compiles) && args.compiles != 0; }

tenon_status* RunPass(tenon_plugin_self* self, const tenon_graph_pass_args* args) {
  return sdk::Answer([&]() -> tenon_status* {
    if (!Compiles(*args)) return nullptr;
    sdk::PassContext p(self, args);
    Pass(p, *args).Run();
    return p.Finish();
  });
}

constexpr tenon_span kOps[] = {TENON_SPAN("Softmax")};

}  // namespace

constinit const tenon_graph_pass kAttentionPass = {
    TENON_HEAD(tenon_graph_pass), TENON_SPAN("attention-and-gradients"), kOps, std::size(kOps), &RunPass, 0, 0, 0,
    TENON_SPAN("known-axes,collectives,recurrent-loops")};

std::vector<std::vector<int64_t>> FindAttentions(sdk::PassContext& p, const tenon_graph_pass_args& args) {
  return Compiles(args) ? Pass(p, args).Find() : std::vector<std::vector<int64_t>>();
}

}  // namespace tenon::gpu
