// SPDX-License-Identifier: Apache-2.0
// The end of a chain that changes variables: an optimizer's step, AssignAddVariableOp or AssignSubVariableOp. The
// gradient is used where it is made.
//
// The formulas are those of tenon/extras/kernel/optimizer.h as nodes, rounded as they are there; of halves all of it is
// of floats, and what the variables get is rounded. Old values are inputs of the program, new ones its last results,
// which may lie where the old ones do; scalars are inputs of one element, which Update() makes of the node's once a
// run.
#ifndef TENON_DEVICES_CPU_CODEGEN_REGION_UPDATE_H_
#define TENON_DEVICES_CPU_CODEGEN_REGION_UPDATE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "code/program.h"
#include "region/failure.h"
#include "tenon/graph.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::cpu_codegen {

enum class Optimizer : uint8_t {
  kAdd,
  kSubtract,
  kGradientDescent,
  kMomentum,
  kKerasMomentum,
  kAdagrad,
  kAdagradV2,
  kRmsProp,
  kAdam
};

inline constexpr size_t kMostVariables = 3, kMostScalars = 6, kNodesOfUpdate = 24;

// Inputs of the op: handles of its variables come first.
struct UpdateOp {
  std::string_view name;
  Optimizer optimizer;
  size_t variables;
  int32_t gradient;
  std::vector<int32_t> scalars;
};
// nullptr: another op, or one that is not generated.
const UpdateOp* UpdateOpOf(std::string_view op);
// Whether the node is generated with its types and attributes.
bool IsGeneratedUpdate(const UpdateOp& op, const tenon_node_services& services, const tenon_node* node, Level level);

class RegionUpdate {
 public:
  RegionUpdate(const UpdateOp& op, const tenon_node_services& services, const tenon_node* node);

  const UpdateOp& op() const { return *op_; }
  uint32_t dtype() const { return dtype_; }
  uint32_t wide() const { return wide_; }  // of scalars and formulas
  // How many scalars the formula reads.
  size_t scalar_count() const;
  // The new values by nodes that add() adds, which gives their numbers. gradient, scalars and olds are numbers of
  // values, all of type wide().
  std::vector<int> NewValues(int gradient, const int* scalars, const int* olds,
                             const std::function<int(Function, std::vector<int>)>& add) const;

  // Begins the update of every variable, gives function() where scalars, old and new values are, and commits what it
  // has done. Fails as the kernel does; a variable that nothing was written to keeps its value. flags: TENON_UPDATE_*,
  // besides the node's.
  struct Places {
    std::array<const char*, kMostScalars> scalars;
    std::array<const char*, kMostVariables> olds;
    std::array<char*, kMostVariables> news;
  };
  template <class Function>
  void Run(const sdk::RunContext& c, sdk::Dims dims, uint32_t flags, Function&& function) const;

  std::vector<int32_t> handles, scalars;  // of the node: numbers of the frame's inputs

 private:
  template <class T, class A>
  void Prepare(const sdk::RunContext& c, A* to) const;
  void PrepareAny(const sdk::RunContext& c, char* to) const;

  const UpdateOp* op_;
  uint32_t dtype_ = 0, wide_ = 0, lock_ = 0;
  bool nesterov_ = false;
  std::string name_;  // for failures
};

template <class Function>
void RegionUpdate::Run(const sdk::RunContext& c, sdk::Dims dims, uint32_t flags, Function&& function) const {
  try {
    alignas(8) char prepared[kMostScalars * 8];
    PrepareAny(c, prepared);
    Places places{};
    const size_t size = wide_ == TENON_DT_DOUBLE ? 8 : 4;
    for (size_t i = 0; i < scalar_count(); ++i) places.scalars[i] = prepared + i * size;
    std::array<std::optional<sdk::Update>, kMostVariables> updates;
    for (size_t k = 0; k < op_->variables; ++k) {
      updates[k].emplace(c, c.resource(handles[k]), lock_ | flags, dtype_, dims);
      updates[k]->NothingWritten();  // until all are there
      places.olds[k] = updates[k]->old_data<char>();
      places.news[k] = updates[k]->new_data<char>();
    }
    for (size_t k = 0; k < op_->variables; ++k) updates[k]->BeginWriting();
    function(places);
    for (size_t k = op_->variables; k-- > 0;) updates[k]->Commit();
  } catch (sdk::KernelError& error) {
    FailAs(name_, error);
  }
}

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_REGION_UPDATE_H_
