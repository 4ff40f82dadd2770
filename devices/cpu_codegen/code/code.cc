// SPDX-License-Identifier: Apache-2.0
#include "code/code.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "emit/generator.h"

namespace tenon::cpu_codegen {
namespace {

std::atomic<int64_t> programs_now{0}, bytes_now{0}, compilations{0};

// What was compiled: the latest are kept, others as long as somebody runs them.
class Cache {
 public:
  std::shared_ptr<const Code> Find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    std::shared_ptr<const Code> code = found->second.lock();
    if (code != nullptr) Keep(code);
    return code;
  }
  // What stands for the key: another thread may have been faster.
  std::shared_ptr<const Code> Add(const std::string& key, std::shared_ptr<const Code> code) {
    const std::lock_guard lock(mutex_);
    if (by_key_.size() >= sweep_at_) {
      std::erase_if(by_key_, [](const auto& entry) { return entry.second.expired(); });
      sweep_at_ = 2 * by_key_.size() + 64;
    }
    auto& entry = by_key_[key];
    if (auto other = entry.lock()) code = std::move(other);
    else entry = code;
    Keep(code);
    return code;
  }
  // Lets those go that nobody runs.
  void Trim() {
    const std::lock_guard lock(mutex_);
    kept_.clear();
  }

 private:
  void Keep(const std::shared_ptr<const Code>& code) {
    kept_.remove(code);
    kept_.push_back(code);
    if (kept_.size() > kMostKept) kept_.pop_front();
  }
  static constexpr size_t kMostKept = 64;
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const Code>> by_key_;
  std::list<std::shared_ptr<const Code>> kept_;
  size_t sweep_at_ = 64;
};

Cache& TheCache() {
  static Cache* const cache = new Cache;
  return *cache;
}

}  // namespace

Code::Code(void* memory, size_t bytes) : memory_(memory), bytes_(bytes), entry_(reinterpret_cast<EntryPoint>(memory)) {
  programs_now.fetch_add(1);
  bytes_now.fetch_add(static_cast<int64_t>(bytes));
}

Code::~Code() {
  munmap(memory_, bytes_);
  programs_now.fetch_sub(1);
  bytes_now.fetch_sub(static_cast<int64_t>(bytes_));
}

std::unique_ptr<const Code> Code::Load(std::span<const uint8_t> bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t size = (bytes.size() + page - 1) / page * page;
  if (size == 0) return nullptr;
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memcpy(memory, bytes.data(), bytes.size());
  if (mprotect(memory, size, PROT_READ | PROT_EXEC) != 0) {
    munmap(memory, size);
    return nullptr;
  }
  return std::unique_ptr<const Code>(new Code(memory, size));
}

bool MayExecute() {
#if defined(__x86_64__)
  static const bool may = [] {
    constexpr uint8_t kReturn[] = {0xc3};
    const auto code = Code::Load(kReturn);
    if (code == nullptr) return false;
    Call call;
    code->Run(call);
    return true;
  }();
  return may;
#else
  return false;
#endif
}

namespace {

template <class Source>
std::shared_ptr<const Code> Compiled(const Source& program) {
  const std::string key = program.Key();
  if (auto found = TheCache().Find(key)) return found;
  if (programs_now.load() >= kMostPrograms || bytes_now.load() >= kMostBytes) {
    TheCache().Trim();
    if (programs_now.load() >= kMostPrograms || bytes_now.load() >= kMostBytes) return nullptr;
  }
  std::shared_ptr<const Code> code = Code::Load(Generate(program));
  if (code == nullptr) return nullptr;
  compilations.fetch_add(1);
  return TheCache().Add(key, std::move(code));
}

}  // namespace

std::shared_ptr<const Code> CodeOf(const Program& program) { return Compiled(program); }
std::shared_ptr<const Code> CodeOfLoop(const Loop& loop) { return Compiled(loop); }

CodeStatistics StatisticsOfCode() { return {programs_now.load(), bytes_now.load(), compilations.load()}; }

}  // namespace tenon::cpu_codegen
