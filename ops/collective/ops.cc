// SPDX-License-Identifier: Apache-2.0
// Collectives: what the members of a group bring, and what each of them gets. The forms without a number name their
// group and instance by attributes, those of version 2 by inputs on the host.
//
// Members meet within one step of one session (tenon/sdk/device/collective.h). Their kernels run on the host
// (kernels.cc) unless the device has its own. Ordering tokens are taken and mean nothing: what must have an order needs
// a data or control edge.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void ReduceShape(ShapeContext& c) { c.SetOutput(0, c.Input(0)); }

// [rows, ...] of each of `size` members, one after the other.
Shape Gathered(ShapeContext& c, int64_t size) {
  const Shape own = c.WithRankAtLeast(0, 1);
  if (!own.known_rank() || own.rank() == 0) return Shape();
  const int64_t rows = own[0] < 0 || size < 0 ? -1 : c.Multiply(own[0], size);
  return Join(Shape({rows}), own.Slice(1));
}
void GatherShape(ShapeContext& c) {
  c.SetOutput(
      0, c.Merge(Gathered(c, c.Int("group_size")), c.ShapeAttr("shape"), "what is gathered and the attribute shape"));
}
void GatherV2Shape(ShapeContext& c) { c.SetOutput(0, Gathered(c, c.Integer(1).value_or(-1))); }

void SendShape(ShapeContext& c) {
  c.SetOutput(0, c.Merge(c.Input(0), c.ShapeAttr("shape"), "the shape of what is sent and the attribute shape"));
}
void ReceiveShape(ShapeContext& c) { c.SetOutput(0, c.ShapeAttr("shape")); }
void ReceiveV2Shape(ShapeContext& c) { c.SetOutput(0, c.WantedShape(3)); }

constexpr uint64_t kTraits = TENON_OP_STATEFUL;
constexpr char kScalars[] =
    "rank(group_size) == 0; rank(group_key) == 0; rank(instance_key) == 0; value(group_size) >= 1";

}  // namespace

TENON_OP(kCollectiveReduce) = DefineOp({
    .name = "CollectiveReduce",
    .inputs = "input: T",
    .outputs = "data: T",
    .attrs = "T: {bfloat16, float, half, double, int32, int64}; group_size: int; group_key: int; instance_key: int; "
             "merge_op: {'Min', 'Max', 'Mul', 'Add'}; final_op: {'Id', 'Div'}; subdiv_offsets: list(int); wait_for: "
             "list(int) = []; "
             "communication_hint: string = 'auto'; timeout_seconds: float = 0",
    .constraints = "group_size >= 1",
    .doc =
        "The members' tensors, which have one shape, merged element by element; Div divides by the number of members.",
    .traits = kTraits,
    .shape = ShapeFunction<ReduceShape>,
});

TENON_OP(kCollectiveReduceV2) = DefineOp({
    .name = "CollectiveReduceV2",
    .inputs = "input: T, group_size: int32, group_key: int32, instance_key: int32, ordering_token: Nordering_token * "
              "resource",
    .outputs = "data: T",
    .attrs = "T: {bfloat16, float, half, double, int32, int64}; merge_op: {'Min', 'Max', 'Mul', 'Add'}; final_op: "
             "{'Id', 'Div'}; "
             "communication_hint: string = 'auto'; timeout_seconds: float = 0; is_stateless: bool = false; "
             "Nordering_token: int >= 0 = 0; "
             "max_subdivs_per_device: int = -1",
    .constraints = kScalars,
    .doc =
        "The members' tensors, which have one shape, merged element by element; Div divides by the number of members.",
    .traits = kTraits,
    .shape = ShapeFunction<ReduceShape>,
});

TENON_OP(kCollectiveGather) = DefineOp({
    .name = "CollectiveGather",
    .inputs = "input: T",
    .outputs = "data: T",
    .attrs =
        "T: {float, half, double, int32, int64}; group_size: int; group_key: int; instance_key: int; shape: shape; "
        "communication_hint: string = 'auto'; timeout_seconds: float = 0",
    .constraints = "group_size >= 1; rank(input) >= 1",
    .doc = "The rows of all members' tensors, which have one shape, by rank.",
    .traits = kTraits,
    .shape = ShapeFunction<GatherShape>,
});

TENON_OP(kCollectiveGatherV2) = DefineOp({
    .name = "CollectiveGatherV2",
    .inputs = "input: T, group_size: int32, group_key: int32, instance_key: int32, ordering_token: Nordering_token * "
              "resource",
    .outputs = "data: T",
    .attrs = "T: {float, half, double, int32, int64}; communication_hint: string = 'auto'; timeout_seconds: float = 0; "
             "is_stateless: bool = false; Nordering_token: int >= 0 = 0",
    .constraints = "rank(input) >= 1; rank(group_size) == 0; rank(group_key) == 0; rank(instance_key) == 0; "
                   "value(group_size) >= 1",
    .doc = "The rows of all members' tensors, which have one shape, by rank.",
    .traits = kTraits,
    .shape = ShapeFunction<GatherV2Shape>,
});

TENON_OP(kCollectiveBcastSend) = DefineOp({
    .name = "CollectiveBcastSend",
    .inputs = "input: T",
    .outputs = "data: T",
    .attrs = "T: {bool, float, half, double, int32, int64}; group_size: int; group_key: int; instance_key: int; shape: "
             "shape; "
             "communication_hint: string = 'auto'; timeout_seconds: float = 0",
    .constraints = "group_size >= 1",
    .doc = "Gives the tensor to all members of the group, this one too.",
    .traits = kTraits,
    .shape = ShapeFunction<SendShape>,
});

TENON_OP(kCollectiveBcastSendV2) = DefineOp({
    .name = "CollectiveBcastSendV2",
    .inputs = "input: T, group_size: int32, group_key: int32, instance_key: int32",
    .outputs = "data: T",
    .attrs =
        "T: {bool, float, half, double, int32, int64}; communication_hint: string = 'auto'; timeout_seconds: float = 0",
    .constraints = kScalars,
    .doc = "Gives the tensor to all members of the group, this one too.",
    .traits = kTraits,
    .shape = ShapeFunction<ReduceShape>,
});

TENON_OP(kCollectiveBcastRecv) = DefineOp({
    .name = "CollectiveBcastRecv",
    .outputs = "data: T",
    .attrs = "T: {bool, float, half, double, int32, int64}; group_size: int; group_key: int; instance_key: int; shape: "
             "shape; "
             "communication_hint: string = 'auto'; timeout_seconds: float = 0",
    .constraints = "group_size >= 1",
    .doc = "The tensor that the group's CollectiveBcastSend gives; it has this shape.",
    .traits = kTraits,
    .shape = ShapeFunction<ReceiveShape>,
});

TENON_OP(kCollectiveBcastRecvV2) = DefineOp({
    .name = "CollectiveBcastRecvV2",
    .inputs = "group_size: int32, group_key: int32, instance_key: int32, shape: Tshape",
    .outputs = "data: T",
    .attrs = "T: {bool, float, half, double, int32, int64}; Tshape: {int32, int64} = int32; communication_hint: string "
             "= 'auto'; "
             "timeout_seconds: float = 0",
    .constraints = "rank(group_size) == 0; rank(group_key) == 0; rank(instance_key) == 0; value(group_size) >= 1; "
                   "rank(shape) == 1",
    .doc = "The tensor that the group's CollectiveBcastSendV2 gives; it has this shape.",
    .traits = kTraits,
    .shape = ShapeFunction<ReceiveV2Shape>,
});

TENON_OP(kNcclAllReduce) = DefineOp({
    .name = "NcclAllReduce",
    .inputs = "input: T",
    .outputs = "data: T",
    .attrs = "reduction: {'min', 'max', 'prod', 'sum'}; T: {half, float, double, int32, int64}; num_devices: int; "
             "shared_name: string",
    .constraints = "num_devices >= 1",
    .doc = "The tensors of num_devices nodes of one shared_name merged element by element. The name is TensorFlow's; "
           "it runs anywhere.",
    .traits = kTraits,
    .shape = ShapeFunction<ReduceShape>,
});

static void ReduceScatterShape(ShapeContext& c) {
  const Shape input = c.WithRankAtLeast(0, 1);
  if (!input.known_rank() || input.rank() == 0) return;
  const int64_t size = c.Integer(1).value_or(-1);
  if (size >= 1 && input[0] >= 0 && input[0] % size != 0)
    return c.Invalid("the rows of ", input, " are no equal parts for ", size, " members");
  c.SetOutput(0, Join(Shape({size >= 1 && input[0] >= 0 ? input[0] / size : kUnknown}), input.Slice(1)));
}

TENON_OP(kCollectiveReduceScatterV2) = DefineOp({
    .name = "CollectiveReduceScatterV2",
    .inputs = "input: T, group_size: int32, group_key: int32, instance_key: int32, ordering_token: Nordering_token * "
              "resource",
    .outputs = "data: T",
    .attrs = "T: {bfloat16, float, half, double, int32, int64}; merge_op: {'Min', 'Max', 'Mul', 'Add'}; final_op: "
             "{'Id', 'Div'}; "
             "communication_hint: string = 'auto'; timeout_seconds: float = 0; is_stateless: bool = false; "
             "Nordering_token: int >= 0 = 0; "
             "max_subdivs_per_device: int = -1",
    .constraints = "rank(input) >= 1; rank(group_size) == 0; rank(group_key) == 0; rank(instance_key) == 0; "
                   "value(group_size) >= 1",
    .doc = "The members' tensors, which have one shape, merged element by element; each member gets its part of the "
           "rows, by rank.",
    .traits = kTraits,
    .shape = ShapeFunction<ReduceScatterShape>,
});

TENON_OP(kCollectiveAllToAllV2) = DefineOp({
    .name = "CollectiveAllToAllV2",
    .inputs = "input: T, group_size: int32, group_key: int32, instance_key: int32, ordering_token: Nordering_token * "
              "resource",
    .outputs = "data: T",
    .attrs = "T: {bfloat16, float, half, double, int32, int64}; communication_hint: string = 'auto'; timeout_seconds: "
             "float = 0; is_stateless: bool = false; "
             "Nordering_token: int >= 0 = 0",
    .constraints = "rank(input) >= 1; rank(group_size) == 0; rank(group_key) == 0; rank(instance_key) == 0; "
                   "value(group_size) >= 1",
    .doc =
        "Of each member's rows, which are as many parts as there are members, the part that is this member's, by rank.",
    .traits = kTraits,
    .shape = ShapeFunction<ReduceShape>,
});

TENON_OP(kCollectiveInitializeCommunicator) = DefineOp({
    .name = "CollectiveInitializeCommunicator",
    .inputs = "group_key: int32, rank: int32, group_size: int32",
    .outputs = "communicator: resource",
    .attrs = "communication_hint: string = 'auto'; timeout_seconds: float = 0",
    .constraints = "rank(group_key) == 0; rank(rank) == 0; rank(group_size) == 0; value(group_size) >= 1",
    .doc = "A member's side of a group, for CollectiveReduceV3; it ends with the step.",
    .traits = kTraits,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kCollectiveReduceV3) = DefineOp({
    .name = "CollectiveReduceV3",
    .inputs = "input: T, communicator: resource, group_assignment: int32",
    .outputs = "data: T",
    .attrs = "T: {bfloat16, float, half, double, int32, int64}; reduction: {'Min', 'Max', 'Mul', 'Add'}; "
             "timeout_seconds: float = 0",
    .constraints = "rank(group_assignment) == 2",
    .doc = "The tensors of those ranks that stand in one row of group_assignment, which have one shape, merged element "
           "by element. A communicator's uses meet the others' uses in their order, which "
           "control edges must give where there are several in a step.",
    .traits = kTraits,
    .shape = ShapeFunction<ReduceShape>,
});

static void AssignGroupShape(ShapeContext& c) {
  c.WithRank(0, 2);
  c.WithRank(1, 0);
  c.WithRank(2, 0);
  c.SetOutput(0, Shape::Scalar());
  c.SetOutput(1, Shape::Scalar());
}

TENON_OP(kCollectiveAssignGroupV2) = DefineOp({
    .name = "CollectiveAssignGroupV2",
    .inputs = "group_assignment: int32, device_index: int32, base_key: int32",
    .outputs = "group_size: int32, group_key: int32",
    .constraints = "rank(group_assignment) == 2; rank(device_index) == 0; rank(base_key) == 0",
    .doc = "The size of the group, a row of group_assignment, in which device_index stands, and base_key plus the "
           "row's number as its key.",
    .traits = kTraits,
    .shape = ShapeFunction<AssignGroupShape>,
});

static void NcclReduceShape(ShapeContext& c) {
  Shape shape = c.Input(0);
  for (int i = 1; i < c.input_count(); ++i) shape = c.Merge(shape, c.Input(i), "the shapes of what is reduced");
  c.SetOutput(0, shape);
}

// All that is reduced comes to one node.
static void DecomposeNcclReduce(DecomposeContext& d) {
  const std::string_view reduction = d.String("reduction");
  const char* const op = reduction == "sum"    ? "AddV2"
                         : reduction == "prod" ? "Mul"
                         : reduction == "min"  ? "Minimum"
                                               : "Maximum";
  Output result = d.Op("Identity", {d.input(0)});
  for (int i = 1; i < d.input_count(); ++i) result = d.Op(op, {result, d.input(i)});
  d.SetOutput(0, result);
}

TENON_OP(kNcclReduce) = DefineOp({
    .name = "NcclReduce",
    .inputs = "input: num_devices * T",
    .outputs = "data: T",
    .attrs = "reduction: {'min', 'max', 'prod', 'sum'}; T: {half, float, double, int32, int64}; num_devices: int >= 1",
    .doc = "The tensors, which have one shape, merged element by element. The name is TensorFlow's; it runs anywhere.",
    .traits = kTraits,
    .shape = ShapeFunction<NcclReduceShape>,
    .decompose = DecomposeFunction<DecomposeNcclReduce>,
});

static void NcclBroadcastShape(ShapeContext& c) {
  c.SetOutput(0, c.Merge(c.Input(0), c.ShapeAttr("shape"), "the shape of what is sent and the attribute shape"));
}

// Who reads the output has it brought.
static void DecomposeNcclBroadcast(DecomposeContext& d) { d.SetOutput(0, d.Op("Identity", {d.input(0)})); }

TENON_OP(kNcclBroadcast) = DefineOp({
    .name = "NcclBroadcast",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: {half, float, double, int32, int64}; shape: shape",
    .doc = "The tensor, for readers on any device. The name is TensorFlow's; it runs anywhere.",
    .traits = kTraits,
    .shape = ShapeFunction<NcclBroadcastShape>,
    .decompose = DecomposeFunction<DecomposeNcclBroadcast>,
});

}  // namespace tenon::ops
