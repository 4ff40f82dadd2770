// SPDX-License-Identifier: Apache-2.0
// TileProgram: element-wise nodes of one shape, computed piece after piece by their kernels' tile functions
// (ext/draft/tile.h).
//
// The elements of the shape are parted into tiles. For each tile all nodes run, one after the other, so that what one
// makes is in the processor's cache when the next reads it; values that nobody reads outside of the program never reach
// memory. Threads share the tiles.
//
// Inputs of that shape are read where they lie, scalars too; others, which are broadcast, are laid out for the tile.
// Values inside stand in slots on the stack of the thread that runs the tile.
#ifndef TENON_CORE_EXEC_PLAN_TILE_PROGRAM_H_
#define TENON_CORE_EXEC_PLAN_TILE_PROGRAM_H_

#include <array>
#include <memory>
#include <vector>

#include "core/exec/plan/compiled_region.h"
#include "core/graph/shape_inference.h"
#include "tenon/ext/draft/tile.h"

namespace tenon::exec {

class Plan;
struct PreparedNode;

// Whether the node may be one of a program, whatever its shapes are: one value out of plain ones, of a kernel of the
// host's that has a tile function, no state, and does not come back later.
bool MayBeTiled(const Plan& plan, graph::NodeId id);

class TileProgram final : public CompiledRegion {
 public:
  // nodes: in order, of which one reads another, all with outputs of one known shape; inputs and outputs: what enters
  // and leaves them. nullptr: they are to run one by one.
  static Result<std::shared_ptr<const TileProgram>> Make(const Plan& plan, const std::vector<graph::NodeId>& nodes,
                                                         const std::vector<graph::Edge>& inputs,
                                                         const std::vector<graph::Edge>& outputs,
                                                         const graph::ShapeInference& inference);
  tenon_status* Run(tenon_frame* frame) const override;
  const char* how() const override { return "tiled"; }

  int64_t tile() const { return tile_; }  // elements
  int32_t slots() const { return slots_; }

 private:
  class Maker;
  using CompiledRegion::CompiledRegion;

  enum class Where : uint8_t { kInput, kSlot, kOutput };
  struct Operand {
    Where where = Where::kInput;
    bool is_scalar = false;
    int32_t index = 0;  // of the frame's inputs or outputs, or of the slots
    int64_t size = 0;   // bytes of an element
  };
  struct Step {
    tenon_tile_function function;
    const void* argument;
    std::vector<Operand> inputs;
    std::vector<int64_t> strides;
    Operand output;
  };
  // An input that is laid out in a slot: element (i_0, ...) of the shape is at sum i_d * strides[d].
  struct Broadcast {
    int32_t input, slot;
    int64_t size;
    std::vector<int64_t> strides;
    bool same_in_all;  // tiles begin at multiples of its period
  };
  struct Share;
  void RunTiles(tenon_frame* frame, int64_t first, int64_t last) const;
  void LayOut(const Broadcast& broadcast, const tenon_frame& frame, int64_t begin, int64_t count, char* to) const;

  std::vector<std::shared_ptr<const PreparedNode>> kernels_;  // that the functions are of
  std::vector<Step> steps_;
  std::vector<Broadcast> broadcasts_;
  std::vector<tenon_in_place> taken_over_;
  std::vector<int64_t> dims_;
  int64_t total_ = 0, tile_ = 0, slot_bytes_ = 0;
  int32_t slots_ = 0;
  double cost_ = 0;  // nanoseconds of an element
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_TILE_PROGRAM_H_
