// SPDX-License-Identifier: Apache-2.0
#include "collective/communicators.h"

#include <cstring>

#include "named_library.h"
#include "tenon/ext/draft/collective.h"
#include "tenon/sdk/node.h"

namespace tenon::gpu {
namespace {

Outcome DataTypeOf(uint32_t dtype, int* out) {
  switch (dtype) {
    case TENON_DT_BOOL:
    case TENON_DT_UINT8: *out = nccl::kUint8; return {};
    case TENON_DT_INT32: *out = nccl::kInt32; return {};
    case TENON_DT_INT64: *out = nccl::kInt64; return {};
    case TENON_DT_HALF: *out = nccl::kFloat16; return {};
    case TENON_DT_FLOAT: *out = nccl::kFloat32; return {};
    case TENON_DT_DOUBLE: *out = nccl::kFloat64; return {};
    case TENON_DT_BFLOAT16: *out = nccl::kBfloat16; return {};
    default: return Fault(TENON_UNIMPLEMENTED, "GPUs have no collectives of dtype ", sdk::TypeName(dtype));
  }
}

Outcome ReductionOf(uint32_t reduce, int* out) {
  switch (reduce) {
    case TENON_REDUCE_SUM: *out = nccl::kSum; return {};
    case TENON_REDUCE_PRODUCT: *out = nccl::kProduct; return {};
    case TENON_REDUCE_MIN: *out = nccl::kMinimum; return {};
    case TENON_REDUCE_MAX: *out = nccl::kMaximum; return {};
    default: return Fault(TENON_INVALID_ARGUMENT, "a reduction of number ", reduce, "; there are 0 (sum) to 3 (max)");
  }
}

}  // namespace

Outcome CommunicatorLibrary::Open() {
  if (!looked_) opened_ = Find();
  looked_ = true;
  return opened_;
}

Outcome CommunicatorLibrary::Find() {
  if (option_ == "off") return Fault(TENON_UNIMPLEMENTED, "the option collectives is off");
  const std::string name = is_required() ? option_ : kCommunicatorNames.library;
  if (name.empty())
    return Fault(TENON_UNIMPLEMENTED,
                 "there is no library of collectives for these GPUs; name one in the option collectives");
  NamedLibrary library({name});
#define TENON_NCCL_FIND(function, type) library.Find(#function, &f_.function);
  TENON_NCCL_FUNCTIONS(TENON_NCCL_FIND)
#undef TENON_NCCL_FIND
  return library.problem().empty() ? Outcome()
                                   : Fault(TENON_UNIMPLEMENTED, library.problem(), "; ", kCommunicatorNames.install);
}

Outcome CommunicatorLibrary::Check(int result, const char* what) const {
  if (result == nccl::kSuccess) [[likely]] return {};
  const char* const text = f_.ncclGetErrorString(result);
  return Fault(TENON_INTERNAL, what, ": ", text == nullptr ? "no text" : text, " (", result, ")");
}

Outcome CommunicatorLibrary::MakeToken(std::string* out_token) const {
  nccl::UniqueId id = {};
  Outcome outcome = Check(f_.ncclGetUniqueId(&id), "ncclGetUniqueId");
  out_token->assign(id.internal, sizeof(id.internal));
  return outcome;
}

Outcome CommunicatorLibrary::Join(const std::string& token, int rank, int size, Communicator* out_communicator) const {
  nccl::UniqueId id = {};
  if (token.size() != sizeof(id.internal))
    return Fault(TENON_INVALID_ARGUMENT, "a token of ", token.size(), " bytes; this library's have ",
                 sizeof(id.internal));
  std::memcpy(id.internal, token.data(), token.size());
  return Check(f_.ncclCommInitRank(reinterpret_cast<void**>(out_communicator), size, id, rank), "ncclCommInitRank");
}
void CommunicatorLibrary::Leave(Communicator communicator) const { (void)f_.ncclCommDestroy(communicator); }
void CommunicatorLibrary::Abort(Communicator communicator) const { (void)f_.ncclCommAbort(communicator); }
Outcome CommunicatorLibrary::BeginGroup() const { return Check(f_.ncclGroupStart(), "ncclGroupStart"); }
Outcome CommunicatorLibrary::EndGroup() const { return Check(f_.ncclGroupEnd(), "ncclGroupEnd"); }

Outcome CommunicatorLibrary::AllReduce(Communicator communicator, const void* source, void* target, uint64_t count,
                                       uint32_t dtype, uint32_t reduce, Stream stream) const {
  int type = 0, operation = 0;
  Outcome outcome = DataTypeOf(dtype, &type);
  if (outcome.ok()) outcome = ReductionOf(reduce, &operation);
  return outcome.ok()
             ? Check(f_.ncclAllReduce(source, target, count, type, operation, communicator, stream), "ncclAllReduce")
             : outcome;
}
Outcome CommunicatorLibrary::AllGather(Communicator communicator, const void* source, void* target, uint64_t count,
                                       uint32_t dtype, Stream stream) const {
  int type = 0;
  Outcome outcome = DataTypeOf(dtype, &type);
  return outcome.ok() ? Check(f_.ncclAllGather(source, target, count, type, communicator, stream), "ncclAllGather")
                      : outcome;
}
Outcome CommunicatorLibrary::Broadcast(Communicator communicator, const void* source, void* target, uint64_t count,
                                       uint32_t dtype, int root, Stream stream) const {
  int type = 0;
  Outcome outcome = DataTypeOf(dtype, &type);
  return outcome.ok()
             ? Check(f_.ncclBroadcast(source, target, count, type, root, communicator, stream), "ncclBroadcast")
             : outcome;
}

}  // namespace tenon::gpu
