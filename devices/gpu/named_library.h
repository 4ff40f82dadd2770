// SPDX-License-Identifier: Apache-2.0
// A vendor's library that is looked for when it is first wanted, and its functions by name: nothing links it.
//
//   #define TENON_THING_FUNCTIONS(X) X(thingCreate) X(thingDestroy)
//   struct Functions { TENON_THING_FUNCTIONS(TENON_GPU_MEMBER) } f_;        // of the types that the vendor's header
//   has NamedLibrary library({"libthing.so.1", "/usr/local/thing/libthing.so.1"});
//   TENON_THING_FUNCTIONS(TENON_GPU_FIND)
//   if (!library.problem().empty()) ...                                      // why it cannot be used
//
// What is opened stays open.
#ifndef TENON_DEVICES_GPU_NAMED_LIBRARY_H_
#define TENON_DEVICES_GPU_NAMED_LIBRARY_H_

#include <dlfcn.h>

#include <string>
#include <vector>

namespace tenon::gpu {

// What helps where a library of the option `libraries` has a problem; behind its text.
inline constexpr char kLibraryHelp[] =
    " (put the library where the loader looks, or name its folder in the option libraries)";

class NamedLibrary {
 public:
  // The first of the names (by the loader's rules) and paths that can be opened.
  explicit NamedLibrary(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      name_ = name;
      if (handle_ != nullptr) problem_.clear();
      if (handle_ != nullptr) return;
      const char* const why = dlerror();
      problem_ += (problem_.empty() ? "" : "; ") + (why == nullptr ? name + " cannot be opened" : why);
    }
  }
  template <class Function>
  void Find(const char* function, Function** out) {
    if (!problem_.empty()) return;
    *out = reinterpret_cast<Function*>(dlsym(handle_, function));
    if (*out == nullptr) problem_ = name_ + " lacks " + function;
  }
  // What the loader says of each place, or which function is not there; "": all was found.
  const std::string& problem() const { return problem_; }

 private:
  void* handle_ = nullptr;
  std::string name_, problem_;
};

#define TENON_GPU_MEMBER(name) decltype(&::name) name;
#define TENON_GPU_FIND(name) library.Find(#name, &f_.name);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_NAMED_LIBRARY_H_
