// SPDX-License-Identifier: Apache-2.0
// CompiledRegion: several nodes that run as one operation, made for the shapes of a program. Immutable; any thread.
#ifndef TENON_CORE_EXEC_PLAN_COMPILED_REGION_H_
#define TENON_CORE_EXEC_PLAN_COMPILED_REGION_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/graph/edge.h"
#include "tenon/kernel.h"

namespace tenon::exec {

class CompiledRegion {
 public:
  // label: "MatMul_1 and 3 more". plugin: that is named where it fails.
  CompiledRegion(std::vector<graph::NodeId> nodes, std::string label, std::string plugin)
      : nodes_(std::move(nodes)), label_(std::move(label)), plugin_(std::move(plugin)) {}
  virtual ~CompiledRegion() = default;
  CompiledRegion(const CompiledRegion&) = delete;
  CompiledRegion& operator=(const CompiledRegion&) = delete;

  virtual tenon_status* Run(tenon_frame* frame) const = 0;
  // As explanations say how its nodes run.
  virtual const char* how() const = 0;
  const std::string& plugin() const { return plugin_; }
  uint64_t workspace_bytes() const { return workspace_bytes_; }
  // Inputs whose memory an output may take over.
  std::span<const tenon_in_place> in_place() const { return in_place_; }
  const std::string& label() const { return label_; }
  const std::vector<graph::NodeId>& nodes() const { return nodes_; }

 protected:
  uint64_t workspace_bytes_ = 0;
  std::span<const tenon_in_place> in_place_;

 private:
  const std::vector<graph::NodeId> nodes_;
  const std::string label_, plugin_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_COMPILED_REGION_H_
