// SPDX-License-Identifier: Apache-2.0
#include "segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace tenon::shm {
namespace {

constexpr uint64_t kWordsBytes = 4096;
constexpr uint64_t kBellBytes = 4096;
constexpr uint64_t kFileBytes = kWordsBytes + 2 * Segment::kRingBytes;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
static_assert(2 * sizeof(RingWords) <= kWordsBytes);

tenon_status* SegmentFailure(const char* what) {
  return sdk::Failure(TENON_RESOURCE_EXHAUSTED, what, " failed: ", std::strerror(errno));
}
void* MapShared(void* where, uint64_t bytes, int file, uint64_t offset) {
  void* memory = mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (where == nullptr ? 0 : MAP_FIXED), file,
                      static_cast<off_t>(offset));
  return memory == MAP_FAILED ? nullptr : memory;
}
// The same bytes twice in a row.
char* MapTwice(int file, uint64_t offset) {
  void* space = mmap(nullptr, 2 * Segment::kRingBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (space == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(space);
  if (MapShared(first, Segment::kRingBytes, file, offset) != nullptr &&
      MapShared(first + Segment::kRingBytes, Segment::kRingBytes, file, offset) != nullptr) {
    return first;
  }
  munmap(space, 2 * Segment::kRingBytes);
  return nullptr;
}

tenon_status* MakeSealed(const char* name, uint64_t bytes, File* out_file) {
  File file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.ok() || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    return SegmentFailure("making shared memory");
  }
  *out_file = std::move(file);
  return nullptr;
}
tenon_status* CheckSealed(const File& file, uint64_t bytes) {
  struct stat about = {};
  if (fstat(file.get(), &about) != 0) return SegmentFailure("looking at shared memory");
  if (static_cast<uint64_t>(about.st_size) == bytes && fcntl(file.get(), F_GET_SEALS) == kSeals) return nullptr;
  return sdk::Failure(TENON_INVALID_ARGUMENT, "the other side's shared memory has another size, or is not sealed");
}

}  // namespace

File::~File() {
  if (file_ >= 0) close(file_);
}

tenon_status* Segment::Make(std::unique_ptr<Segment>* out_segment, File* out_file) {
  File file;
  TENON_SDK_RETURN_IF_ERROR(MakeSealed("tenon-shm", kFileBytes, &file));
  TENON_SDK_RETURN_IF_ERROR(Open(file, out_segment));
  *out_file = std::move(file);
  return nullptr;
}

tenon_status* Segment::Open(const File& file, std::unique_ptr<Segment>* out_segment) {
  TENON_SDK_RETURN_IF_ERROR(CheckSealed(file, kFileBytes));
  std::unique_ptr<Segment> segment(new Segment());
  TENON_SDK_RETURN_IF_ERROR(segment->Map(file.get()));
  *out_segment = std::move(segment);
  return nullptr;
}

tenon_status* Segment::Map(int file) {
  words_ = static_cast<RingWords*>(MapShared(nullptr, kWordsBytes, file, 0));
  for (uint64_t i = 0; i < 2; ++i) rings_[i] = MapTwice(file, kWordsBytes + i * kRingBytes);
  return words_ != nullptr && rings_[0] != nullptr && rings_[1] != nullptr ? nullptr
                                                                           : SegmentFailure("mapping shared memory");
}

Segment::~Segment() {
  if (words_ != nullptr) munmap(words_, kWordsBytes);
  for (char* ring : rings_) {
    if (ring != nullptr) munmap(ring, 2 * kRingBytes);
  }
}

tenon_status* Bell::Make(std::unique_ptr<Bell>* out_bell) {
  File file;
  TENON_SDK_RETURN_IF_ERROR(MakeSealed("tenon-shm-bell", kBellBytes, &file));
  return Open(std::move(file), out_bell);
}

tenon_status* Bell::Open(File file, std::unique_ptr<Bell>* out_bell) {
  TENON_SDK_RETURN_IF_ERROR(CheckSealed(file, kBellBytes));
  void* const memory = MapShared(nullptr, kBellBytes, file.get(), 0);
  if (memory == nullptr) return SegmentFailure("mapping shared memory");
  out_bell->reset(new Bell(static_cast<std::atomic<uint32_t>*>(memory), std::move(file)));
  return nullptr;
}

Bell::~Bell() { munmap(sleeps_, kBellBytes); }

}  // namespace tenon::shm
