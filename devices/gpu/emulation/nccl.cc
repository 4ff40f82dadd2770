// SPDX-License-Identifier: Apache-2.0
// A library with NCCL's functions over emulated GPUs: a shared library of its own, which plugins find by its path. For
// tests.
//
// What it computes is real: ranks meet in their streams' order, the last to come computes for all, by rank. Where the
// real library would wait for ever or go wrong, it says so (kInvalidUsage): joins of a thread that are not all in one
// group, collectives of such a thread outside of groups, ranks whose calls differ. Abort lets go who waits.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collective/communicators.h"
#include "emulation/stream.h"
#include "tenon/sdk/kernel/half.h"

#define TENON_NCCL_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using tenon::gpu::EmulatedStream;
namespace nccl = tenon::gpu::nccl;

constexpr int kInvalidArgument = 4, kInvalidUsage = 5;
enum class Kind { kReduce, kGather, kBroadcast };

struct Clique;
struct Call {
  Kind kind;
  const char* source;
  char* target;
  size_t count;
  int type, operation, root, rank;
  uint64_t number;  // of the rank's calls
  std::shared_ptr<Clique> clique;
  EmulatedStream* stream;

  bool IsLike(const Call& other) const {
    return kind == other.kind && count == other.count && type == other.type && operation == other.operation &&
           root == other.root;
  }
};

using Calls = std::vector<std::shared_ptr<const Call>>;
struct Meeting {
  Calls calls;  // that have come; a rank may have left since, by an abort
  bool done = false;
  int left = 0;  // ranks
};

// All communicators of one token.
struct Clique {
  explicit Clique(int size) : size(size) {}
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  bool aborted = false;
  std::map<uint64_t, Meeting> meetings;
};
struct Comm {
  std::shared_ptr<Clique> clique;
  int rank;
  uint64_t calls = 0;
};

struct Library {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Clique>> cliques;  // by token, until all have joined
};
Library& TheLibrary() {
  static auto* const library = new Library;  // NOLINT: as long as the process
  return *library;
}
std::atomic<int64_t> calls_made{0}, tokens_made{0};

struct GroupOfCalls {
  int depth = 0;
  std::vector<std::shared_ptr<Call>> calls;
  std::vector<std::shared_ptr<Clique>> joins;
};
thread_local GroupOfCalls group;

size_t SizeOf(int type) {
  switch (type) {
    case nccl::kUint8: return 1;
    case nccl::kFloat16:
    case nccl::kBfloat16: return 2;
    case nccl::kInt32:
    case nccl::kFloat32: return 4;
    case nccl::kInt64:
    case nccl::kFloat64: return 8;
    default: return 0;
  }
}

template <class T>
void Reduce(const Calls& calls) {
  using Wide = tenon::sdk::Wide<T>;
  const Call& first = *calls[0];
  std::vector<T> result(first.count);
  if (first.count > 0) std::memcpy(static_cast<void*>(result.data()), first.source, first.count * sizeof(T));
  for (size_t rank = 1; rank < calls.size(); ++rank) {
    const T* source = reinterpret_cast<const T*>(calls[rank]->source);
    for (size_t i = 0; i < first.count; ++i) {
      const auto x = static_cast<Wide>(result[i]), y = static_cast<Wide>(source[i]);
      result[i] = static_cast<T>(first.operation == nccl::kSum       ? static_cast<Wide>(x + y)
                                 : first.operation == nccl::kProduct ? static_cast<Wide>(x * y)
                                 : first.operation == nccl::kMaximum ? std::max(x, y)
                                                                     : std::min(x, y));
    }
  }
  for (const auto& call : calls) {
    if (first.count > 0) std::memcpy(call->target, static_cast<const void*>(result.data()), first.count * sizeof(T));
  }
}

// calls: by rank.
void Compute(const Calls& calls) {
  const Call& first = *calls[0];
  const size_t bytes = first.count * SizeOf(first.type);
  if (first.kind == Kind::kBroadcast) {
    for (const auto& call : calls) std::memmove(call->target, calls[static_cast<size_t>(first.root)]->source, bytes);
    return;
  }
  if (first.kind == Kind::kGather) {
    for (const auto& to : calls) {
      for (size_t rank = 0; rank < calls.size(); ++rank)
        std::memmove(to->target + rank * bytes, calls[rank]->source, bytes);
    }
    return;
  }
  switch (first.type) {
    case nccl::kUint8: return Reduce<uint8_t>(calls);
    case nccl::kInt32: return Reduce<int32_t>(calls);
    case nccl::kInt64: return Reduce<int64_t>(calls);
    case nccl::kFloat16: return Reduce<tenon::sdk::Half>(calls);
    case nccl::kBfloat16: return Reduce<tenon::sdk::Bfloat16>(calls);
    case nccl::kFloat32: return Reduce<float>(calls);
    default: return Reduce<double>(calls);
  }
}

// On the stream's thread. Ranks whose calls differ do harm in a real library; here they end, and nothing is written.
void Meet(const std::shared_ptr<const Call>& call) {
  Clique& clique = *call->clique;
  std::unique_lock lock(clique.mutex);
  Meeting& meeting = clique.meetings[call->number];
  meeting.calls.push_back(call);
  if (static_cast<int>(meeting.calls.size()) == clique.size) {
    std::sort(meeting.calls.begin(), meeting.calls.end(),
              [](const auto& a, const auto& b) { return a->rank < b->rank; });
    const bool alike = std::all_of(meeting.calls.begin(), meeting.calls.end(),
                                   [&](const auto& each) { return each->IsLike(*meeting.calls[0]); });
    if (alike && !clique.aborted) Compute(meeting.calls);
    meeting.done = true;
    clique.changed.notify_all();
  }
  clique.changed.wait(lock, [&] { return meeting.done || clique.aborted; });
  if (++meeting.left == clique.size) clique.meetings.erase(call->number);
}

void Give(std::shared_ptr<Call> call) {
  EmulatedStream* const stream = call->stream;
  stream->GiveAlways([call = std::move(call)](bool lost) {
    if (!lost) Meet(call);
  });
}

int Take(Kind kind, const void* source, void* target, size_t count, int type, int operation, int root,
         void* communicator, void* stream) {
  auto* const comm = static_cast<Comm*>(communicator);
  if (comm == nullptr || stream == nullptr || SizeOf(type) == 0 || root < 0 || root >= comm->clique->size)
    return kInvalidArgument;
  if (group.depth == 0 && comm->clique->size > 1) return kInvalidUsage;
  ++calls_made;
  auto call = std::make_shared<Call>(Call{kind, static_cast<const char*>(source), static_cast<char*>(target), count,
                                          type, operation, root, comm->rank, comm->calls++, comm->clique,
                                          static_cast<EmulatedStream*>(stream)});
  if (group.depth > 0) {
    group.calls.push_back(std::move(call));
  } else {
    Give(std::move(call));
  }
  return nccl::kSuccess;
}

}  // namespace

// How many collectives all ranks have asked for: whether the library is used at all.
TENON_NCCL_EXPORT int64_t tenon_emulated_nccl_calls() { return calls_made; }

TENON_NCCL_EXPORT int ncclGetUniqueId(nccl::UniqueId* id) {
  std::memset(id->internal, 0, sizeof(id->internal));
  const int64_t number = ++tokens_made;
  std::memcpy(id->internal, &number, sizeof(number));
  return nccl::kSuccess;
}

TENON_NCCL_EXPORT int ncclCommInitRank(void** out, int size, nccl::UniqueId id, int rank) {
  if (size < 1 || rank < 0 || rank >= size) return kInvalidArgument;
  if (group.depth == 0 && size > 1) return kInvalidUsage;
  Library& library = TheLibrary();
  const std::lock_guard lock(library.mutex);
  std::shared_ptr<Clique>& clique = library.cliques[std::string(id.internal, sizeof(id.internal))];
  if (clique == nullptr) clique = std::make_shared<Clique>(size);
  if (clique->size != size) return kInvalidArgument;
  ++clique->joined;
  group.joins.push_back(clique);
  *out = new Comm{clique, rank};
  if (clique->joined == size) library.cliques.erase(std::string(id.internal, sizeof(id.internal)));
  return nccl::kSuccess;
}

TENON_NCCL_EXPORT int ncclCommDestroy(void* communicator) {
  delete static_cast<Comm*>(communicator);
  return nccl::kSuccess;
}

TENON_NCCL_EXPORT int ncclCommAbort(void* communicator) {
  const std::unique_ptr<Comm> comm(static_cast<Comm*>(communicator));
  const std::lock_guard lock(comm->clique->mutex);
  comm->clique->aborted = true;
  comm->clique->changed.notify_all();
  return nccl::kSuccess;
}

TENON_NCCL_EXPORT int ncclGroupStart() {
  ++group.depth;
  return nccl::kSuccess;
}

TENON_NCCL_EXPORT int ncclGroupEnd() {
  if (group.depth == 0) return kInvalidUsage;
  if (--group.depth > 0) return nccl::kSuccess;
  const bool joined = std::all_of(group.joins.begin(), group.joins.end(),
                                  [](const auto& clique) { return clique->joined == clique->size; });
  for (auto& call : group.calls) Give(std::move(call));
  group.calls.clear();
  group.joins.clear();
  return joined ? nccl::kSuccess : kInvalidUsage;
}

TENON_NCCL_EXPORT const char* ncclGetErrorString(int result) {
  return result == nccl::kSuccess ? "no error" : result == kInvalidUsage ? "invalid usage" : "invalid argument";
}

TENON_NCCL_EXPORT int ncclAllReduce(const void* source, void* target, size_t count, int type, int operation,
                                    void* communicator, void* stream) {
  return Take(Kind::kReduce, source, target, count, type, operation, 0, communicator, stream);
}
TENON_NCCL_EXPORT int ncclAllGather(const void* source, void* target, size_t count, int type, void* communicator,
                                    void* stream) {
  return Take(Kind::kGather, source, target, count, type, 0, 0, communicator, stream);
}
TENON_NCCL_EXPORT int ncclBroadcast(const void* source, void* target, size_t count, int type, int root,
                                    void* communicator, void* stream) {
  return Take(Kind::kBroadcast, source, target, count, type, 0, root, communicator, stream);
}
