// SPDX-License-Identifier: Apache-2.0
// Collectives of members on GPUs: what a member is, and where the members of a session meet. What complete groups do is
// in collective/collectives.h.
//
// A kernel never waits for its group: it gives its queue two points and returns, and the last of the group gives the
// GPUs their work.
#include "collective/collectives.h"
#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

struct CollectiveKernel {
  explicit CollectiveKernel(sdk::CreateContext& c) : node(c) {}

  void Run(sdk::RunContext c) const {
    const tenon_frame& frame = *c.frame();
    Device& device = RequireOwn(frame.device);
    if (frame.queue == nullptr) sdk::Fail(TENON_FAILED_PRECONDITION, "a kernel of a GPU in a frame without a queue");
    auto member = std::make_unique<GpuMember>();
    node.Fill(c, member.get());
    member->device = device.name();
    member->source = node.receives() ? nullptr : sdk::Data<void>(c.input_view(0));
    member->target = sdk::Data<void>(c.output_view(0));
    member->count = sdk::Count(sdk::Dims(member->dims));
    CheckRoom(*member, c.output_view(0));
    const std::shared_ptr<Collectives::Table> table = node.TableOf<Collectives::Table>(c);
    Collectives& collectives = device.system().collectives();
    const uint64_t step = c.services().step_id(c.frame());
    Require(collectives.Enter({node.session(), step}, [&c] { return c.cancelled(); }));
    if (Outcome begun = collectives.Begin(Queue::Of(frame.queue)->shared_from_this(), frame, member.get());
        !begun.ok()) {
      collectives.Leave(1);
      Require(std::move(begun));
    }
    const std::shared_ptr<CollectivePart> part = member->part;
    Collectives::Table::Ended ended = table->Add(step, std::move(member));
    if (ended.members.empty()) return collectives.Watch(table, part);
    Require(collectives.End(std::move(ended)));
  }

 private:
  static void Require(Outcome outcome) {
    if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
  }
  static void CheckRoom(const GpuMember& member, const View& output) {
    const int64_t brought =
        member.kind == sdk::CollectiveKind::kGather ? sdk::Multiply(member.count, member.group_size) : member.count;
    if (sdk::Count(output) != brought) {
      sdk::Fail(TENON_INVALID_ARGUMENT, member.name, ": a result of shape ", sdk::DimsOf(output), " where ", brought,
                " elements come");
    }
  }
  sdk::CollectiveNode node;
};

constexpr tenon_span kKeys[] = {TENON_SPAN("group_size"), TENON_SPAN("group_key"), TENON_SPAN("instance_key")};
constexpr tenon_span kKeysAndShape[] = {kKeys[0], kKeys[1], kKeys[2], TENON_SPAN("shape")};
constexpr sdk::Traits kByAttributes = {.flags = 0}, kByInputs = {.host_memory = kKeys, .flags = 0};

}  // namespace

TENON_GPU_KERNEL(CollectiveReduce) = PlainKernel<CollectiveKernel>("CollectiveReduce", kByAttributes);
TENON_GPU_KERNEL(CollectiveReduceV2) = PlainKernel<CollectiveKernel>("CollectiveReduceV2", kByInputs);
TENON_GPU_KERNEL(CollectiveGather) = PlainKernel<CollectiveKernel>("CollectiveGather", kByAttributes);
TENON_GPU_KERNEL(CollectiveGatherV2) = PlainKernel<CollectiveKernel>("CollectiveGatherV2", kByInputs);
TENON_GPU_KERNEL(CollectiveBcastSend) = PlainKernel<CollectiveKernel>("CollectiveBcastSend", kByAttributes);
TENON_GPU_KERNEL(CollectiveBcastSendV2) = PlainKernel<CollectiveKernel>("CollectiveBcastSendV2", kByInputs);
TENON_GPU_KERNEL(CollectiveBcastRecv) = PlainKernel<CollectiveKernel>("CollectiveBcastRecv", kByAttributes);
TENON_GPU_KERNEL(CollectiveBcastRecvV2) = PlainKernel<CollectiveKernel>("CollectiveBcastRecvV2",
                                                                        {.host_memory = kKeysAndShape, .flags = 0});
TENON_GPU_KERNEL(NcclAllReduce) = PlainKernel<CollectiveKernel>("NcclAllReduce", kByAttributes);

}  // namespace tenon::gpu
