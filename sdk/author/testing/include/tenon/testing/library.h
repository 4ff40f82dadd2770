// SPDX-License-Identifier: Apache-2.0
// A plugin's built library, opened and asked as the host's loader does, and loaded with options.
//
//   const Library cube("build/lib/tenon/plugins/tenon_cube.so");
//   const Loaded loaded(cube);                                           // until its scope ends
//   KernelCase kernel(*cube.Capability<tenon_kernel_package>(TENON_CAPABILITY_KERNELS), "Cube");
//
// Libraries stay mapped until the process ends.
#ifndef TENON_TESTING_LIBRARY_H_
#define TENON_TESTING_LIBRARY_H_

#include <dlfcn.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/testing/failure.h"
#include "tenon/testing/host.h"

namespace tenon::testing {

// Options by name, as texts.
using Settings = std::vector<std::pair<std::string, std::string>>;

class Library {
 public:
  // What goes wrong is reported, and stands in failure().
  explicit Library(const std::string& path) : path_(path) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) Fail(dlerror());
    else if (void* const query = dlsym(library, TENON_QUERY_SYMBOL))
      Query(reinterpret_cast<tenon_plugin_query_function>(query));
    else Fail("it has no " TENON_QUERY_SYMBOL);
  }

  const std::string& path() const { return path_; }
  const std::string& failure() const { return failure_; }
  // nullptr after a failure.
  const tenon_plugin* descriptor() const { return descriptor_; }
  // The table of a capability; nullptr: it has none.
  template <class Table>
  const Table* Capability(std::string_view id) const {
    for (uint64_t i = 0; descriptor_ != nullptr && i < descriptor_->capability_count; ++i) {
      const tenon_capability& c = descriptor_->capabilities[i];
      if (View(c.id) == id) return static_cast<const Table*>(c.table);
    }
    return nullptr;
  }
  // out_self: for descriptor()->unload().
  tenon_status* Load(const Settings& settings, tenon_plugin_self** out_self) const {
    std::vector<tenon_option> options;
    for (const auto& [key, value] : settings) options.push_back({Span(key), Span(value)});
    const tenon_load_args args = {TENON_HEAD(tenon_load_args), Host(), options.data(), options.size()};
    *out_self = nullptr;
    return descriptor_ == nullptr ? NewStatus(TENON_FAILED_PRECONDITION, path_ + ": " + failure_)
                                  : descriptor_->load(&args, out_self);
  }

 private:
  void Query(tenon_plugin_query_function query) {
    tenon_query_args args = {
        TENON_HEAD(tenon_query_args), TENON_ABI_MAJOR, TENON_ABI_MINOR, TENON_LAYOUT_HASH, {}, 0, 0, {}};
    descriptor_ = query(&args);
    if (descriptor_ == nullptr) Fail("it answers no plugin: " + String(args.out_reject_text));
  }
  void Fail(std::string text) {
    failure_ = std::move(text);
    Report(path_ + ": " + failure_);
  }

  const std::string path_;
  std::string failure_;
  const tenon_plugin* descriptor_ = nullptr;
};

// A library that is loaded as long as this lives. A status that is not released meanwhile is reported.
class Loaded {
 public:
  explicit Loaded(const Library& library, const Settings& settings = {}) : library_(library), statuses_(live_statuses) {
    ExpectEq(Text(library.Load(settings, &self)), "", library.path());
  }
  ~Loaded() {
    if (library_.descriptor() != nullptr) library_.descriptor()->unload(self);
    ExpectEq(live_statuses.load(), statuses_, "statuses were not released");
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  const Library& library() const { return library_; }

 private:
  const Library& library_;
  const int64_t statuses_;

 public:
  tenon_plugin_self* self = nullptr;
};

}  // namespace tenon::testing

#endif  // TENON_TESTING_LIBRARY_H_
