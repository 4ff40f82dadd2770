// SPDX-License-Identifier: Apache-2.0
// Claims: the sets of nodes that devices' compilers take as wholes, and what they are compiled to. Whole loops are
// offered when shapes are bound (offered_loop.h).
//
// A compiler sees the plan's graph once and claims sets of the nodes that stand on its device; of several compilers of
// a device the one of the highest priority comes first, and the others are offered what it left. The host checks each
// set: nodes of one device, with kernels for its queues (or, where it has none, for the host), without state, in no
// other claim. The sets and single nodes that remain depend on each other without a circle: where sets of two compilers
// would, one is given up. Of the sets of devices with queues those pieces are kept that make the step shorter, where
// that can be predicted. When shapes are bound a claim is compiled, and runs as one operation; one that its compiler
// would rather not have then runs piece by piece (tile_program.h) as far as its kernels can, and node by node.
#ifndef TENON_CORE_EXEC_PLAN_CLAIMS_H_
#define TENON_CORE_EXEC_PLAN_CLAIMS_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/exec/device/compiler_entry.h"
#include "core/exec/plan/compiled_region.h"
#include "core/graph/cursor.h"
#include "core/graph/shape_inference.h"

namespace tenon::exec {

class Plan;
struct OfferedLoop;
struct SessionDevice;

class Claims {
 public:
  // Asks the compilers that are loaded, as those of the plan's kernels are. One that fails, or breaks the rules, has no
  // claims then, and the log says why. An error: the planning was given up.
  static Result<std::unique_ptr<Claims>> Find(const Plan& plan);

  // Adds what the engine itself runs piece by piece on devices without queues.
  void TakeTiles();

  struct Claim {
    std::vector<graph::NodeId> nodes;  // in the plan's order
    CompilerEntry compiler;            // without a table: the engine runs their kernels piece by piece (tile_program.h)
    const SessionDevice* device = nullptr;
  };
  const std::vector<Claim>& claims() const { return claims_; }
  // Compilers of loops and their devices, which have no queues, in the order in which they are asked.
  struct LoopCompiler {
    LoopCompilerEntry compiler;
    const SessionDevice* device = nullptr;
  };
  const std::vector<LoopCompiler>& loop_compilers() const { return loop_compilers_; }
  // The number of the node's claim; -1: it has none.
  int32_t ClaimOf(graph::NodeId node) const { return claim_of_[node]; }
  struct Refusal {
    std::string compiler, reason;  // the compiler's plugin; its words, for people
  };
  // Why the node is in no claim; nullptr when no compiler was asked for it or none said why, or it was taken.
  const Refusal* RefusalOf(graph::NodeId node) const;
  const graph::Cursor& cursor() const { return cursor_; }

  // What the step is predicted to take (paying_claims.h); 0: nobody knows.
  struct Predicted {
    double by_nodes = 0, whole = 0,
           seconds = 0;  // without any claim, with all that compilers made, with those that are kept
  };
  const Predicted& predicted() const { return predicted_; }
  // These pieces, each of one claim's nodes in the plan's order, take the place of all claims; other nodes run by
  // themselves.
  void Divide(const std::vector<std::vector<graph::NodeId>>& pieces, const Predicted& predicted);

 private:
  explicit Claims(const Plan& plan);
  friend struct ClaimSink;
  Status Ask(const CompilerEntry& compiler, const SessionDevice& device);
  Status Take(const CompilerEntry& compiler, const SessionDevice& device, const int64_t* nodes, uint64_t count);
  Status BreakCircles(int32_t first);
  void Forget(int64_t first);
  void GiveUp(int32_t claim, const char* why);
  std::vector<int32_t> InCircles() const;
  const graph::ShapeInference& Inferred();

  const Plan& plan_;
  graph::ShapeInference inference_;  // without the feeds' shapes, once a compiler has asked for one
  bool inferred_ = false;
  graph::Cursor cursor_;
  std::vector<Claim> claims_;
  std::vector<LoopCompiler> loop_compilers_;
  graph::NodeMap<int32_t> claim_of_;
  std::map<graph::NodeId, Refusal> refusals_;
  Predicted predicted_;
};

// Whether a compiler of that priority may have the node: work of a queue, or of the host for a device without, and
// nothing that outlives the step.
bool MayBeClaimed(const Plan& plan, graph::NodeId id, int32_t priority, const SessionDevice& device);

// A claim, compiled by its device's compiler for the shapes of a program. nullptr: that would rather have the nodes run
// one by one, or failed, as the log says then. An error: the planning was given up.
Result<std::shared_ptr<const CompiledRegion>> CompileClaim(const Plan& plan, const Claims& claims,
                                                           const Claims::Claim& claim,
                                                           const std::vector<graph::NodeId>& nodes,
                                                           const std::vector<graph::Edge>& inputs,
                                                           const std::vector<graph::Edge>& outputs,
                                                           const graph::ShapeInference& inference);

// The same of a loop.
Result<std::shared_ptr<const CompiledRegion>> CompileLoop(const Plan& plan, const Claims& claims,
                                                          const Claims::LoopCompiler& by, const OfferedLoop& loop,
                                                          const graph::ShapeInference& inference);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_CLAIMS_H_
