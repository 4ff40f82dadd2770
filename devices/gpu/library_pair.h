// SPDX-License-Identifier: Apache-2.0
// A Library of two: one for products, one for convolutions, each opened when it is first asked. NoLibrary: built
// without it.
#ifndef TENON_DEVICES_GPU_LIBRARY_PAIR_H_
#define TENON_DEVICES_GPU_LIBRARY_PAIR_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "library.h"

namespace tenon::gpu {

struct NoLibrary {
  explicit NoLibrary(const Options&) {}
  template <class Problem>
  std::unique_ptr<LibraryWork> Take(const Problem&) const {
    return nullptr;
  }
  std::string Describe() const { return ""; }
};

template <class Products, class Convolutions>
class LibraryPair final : public Library {
 public:
  explicit LibraryPair(const Options& options) : options_(options) {}
  std::unique_ptr<LibraryWork> Take(const MatrixProduct& product) override { return Opened(products_).Take(product); }
  std::unique_ptr<LibraryWork> Take(const Convolution& convolution) override {
    return Opened(convolutions_).Take(convolution);
  }

 private:
  // The GPU is the calling thread's.
  template <class Part>
  const Part& Opened(std::optional<Part>& part) {
    const std::lock_guard lock(mutex_);
    if (!part.has_value()) {
      const std::string about = part.emplace(options_).Describe();
      tenon_plugin_host->log(TENON_LOG_INFO, sdk::ToSpan(about));
    }
    return *part;
  }

  const Options options_;
  std::mutex mutex_;
  std::optional<Products> products_;
  std::optional<Convolutions> convolutions_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_LIBRARY_PAIR_H_
