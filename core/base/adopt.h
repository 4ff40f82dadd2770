// SPDX-License-Identifier: Apache-2.0
// Structs of the C ABI that came from a plugin built with older headers: read as this host knows them.
//
// A copy is kept for ever, because plans and graphs point at it; a plugin that is loaded again gets the one that it
// had.
#ifndef TENON_CORE_BASE_ADOPT_H_
#define TENON_CORE_BASE_ADOPT_H_

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace tenon {

// `given` itself when it is as long as this host's struct, else a copy whose missing members are zero. T begins with
// uint32_t struct_size. Any thread.
template <typename T>
const T* Adopt(const T* given) {
  if (given->struct_size >= sizeof(T)) return given;
  static std::mutex* const mutex = new std::mutex;
  static auto* const copies = new std::multimap<const T*, std::unique_ptr<T>>;
  std::lock_guard lock(*mutex);
  const auto [begin, end] = copies->equal_range(given);
  for (auto it = begin; it != end; ++it)
    if (std::memcmp(it->second.get(), given, given->struct_size) == 0) return it->second.get();
  auto copy = std::make_unique<T>();
  std::memcpy(copy.get(), given, given->struct_size);
  return copies->emplace(given, std::move(copy))->second.get();
}

}  // namespace tenon

#endif  // TENON_CORE_BASE_ADOPT_H_
