// SPDX-License-Identifier: Apache-2.0
// Communicators: a vendor's library of collectives (NCCL, RCCL), found by name when it is first needed. Nothing links
// it.
//
// NCCL's C ABI and RCCL's are one; what is used of it is declared here, and devices/cuda and devices/rocm compare it
// with the vendor's header where there is one. Each plugin says what its library is called (kCommunicatorNames).
//
// Rules. Calls between BeginGroup() and EndGroup() begin together, and only then; one thread that holds several members
// must put their joins, and each of their collectives, into a group, or the first waits for the others for ever. The
// GPU of a join is the calling thread's (Card::Activate). Calls of one communicator are made one after the other.
// Collectives are given to the stream and return. Errors. UNIMPLEMENTED: there is no library, or it lacks a function;
// the text says what was looked for and what would help.
#ifndef TENON_DEVICES_GPU_COLLECTIVE_COMMUNICATORS_H_
#define TENON_DEVICES_GPU_COLLECTIVE_COMMUNICATORS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime.h"

namespace tenon::gpu {

// The part of nccl.h that is used, under names of ours.
namespace nccl {
inline constexpr size_t kTokenBytes = 128;
struct UniqueId {
  char internal[kTokenBytes];
};
inline constexpr int kSuccess = 0;
enum DataType : int { kUint8 = 1, kInt32 = 2, kInt64 = 4, kFloat16 = 6, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9 };
enum Reduction : int { kSum = 0, kProduct = 1, kMaximum = 2, kMinimum = 3 };
}  // namespace nccl

using Communicator = struct CommunicatorTag*;

struct CommunicatorNames {
  const char* library;  // "libnccl.so.2"; "": there is none by default
  const char* install;  // what would help
};
extern const CommunicatorNames kCommunicatorNames;

class CommunicatorLibrary {
 public:
  // option: "auto", "off", or the library's path.
  explicit CommunicatorLibrary(std::string option) : option_(std::move(option)) {}
  // Finds the library, once. Not from several threads at once.
  Outcome Open();
  // Whether somebody asked for this very library: then doing without it is an error.
  bool is_required() const { return option_ != "auto" && option_ != "off"; }

  // ---- After Open() ----
  Outcome MakeToken(std::string* out_token) const;
  Outcome Join(const std::string& token, int rank, int size, Communicator* out_communicator) const;
  void Leave(Communicator communicator) const;
  // Ends what the communicator's GPU is doing, whoever is missing. It is gone then.
  void Abort(Communicator communicator) const;
  Outcome BeginGroup() const;
  Outcome EndGroup() const;

  Outcome AllReduce(Communicator communicator, const void* source, void* target, uint64_t count, uint32_t dtype,
                    uint32_t reduce, Stream stream) const;
  // target: count elements of each member.
  Outcome AllGather(Communicator communicator, const void* source, void* target, uint64_t count, uint32_t dtype,
                    Stream stream) const;
  Outcome Broadcast(Communicator communicator, const void* source, void* target, uint64_t count, uint32_t dtype,
                    int root, Stream stream) const;

 private:
#define TENON_NCCL_FUNCTIONS(X)                                                                                    \
  X(ncclGetUniqueId, int (*)(nccl::UniqueId*))                                                                     \
  X(ncclCommInitRank, int (*)(void**, int, nccl::UniqueId, int))                                                   \
  X(ncclCommDestroy, int (*)(void*))                                                                               \
  X(ncclCommAbort, int (*)(void*))                                                                                 \
  X(ncclGroupStart, int (*)())                                                                                     \
  X(ncclGroupEnd, int (*)())                                                                                       \
  X(ncclGetErrorString, const char* (*)(int))                                                                      \
  X(ncclAllReduce, int (*)(const void*, void*, size_t, int, int, void*, void*))                                    \
  X(ncclAllGather, int (*)(const void*, void*, size_t, int, void*, void*))                                         \
  X(ncclBroadcast, int (*)(const void*, void*, size_t, int, int, void*, void*))
  template <class T>
  using As = T;
  struct Functions {
#define TENON_NCCL_MEMBER(name, type) As<type> name = nullptr;
    TENON_NCCL_FUNCTIONS(TENON_NCCL_MEMBER)
#undef TENON_NCCL_MEMBER
  };

  Outcome Find();
  Outcome Check(int result, const char* what) const;

  const std::string option_;
  bool looked_ = false;
  Outcome opened_;
  Functions f_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_COLLECTIVE_COMMUNICATORS_H_
