// SPDX-License-Identifier: Apache-2.0
// A vendor's library that is looked for when it is first wanted, and its functions by name: nothing links it.
//
//   #define TENON_THING_FUNCTIONS(X) X(thingCreate) X(thingDestroy)
//   struct Functions { TENON_THING_FUNCTIONS(TENON_GPU_MEMBER) } f_;        // of the types that the vendor's header has
//   NamedLibrary library({"libthing.so.1", "/usr/local/thing/libthing.so.1"});
//   TENON_THING_FUNCTIONS(TENON_GPU_FIND)
//   if (!library.missing().empty()) ...                                      // which of them is not there
//
// What is opened stays open.
#ifndef TENON_DEVICES_GPU_NAMED_LIBRARY_H_
#define TENON_DEVICES_GPU_NAMED_LIBRARY_H_

#include <dlfcn.h>

#include <string>
#include <vector>

namespace tenon::gpu {

class NamedLibrary {
 public:
  // The first of the names (by the loader's rules) and paths that can be opened.
  explicit NamedLibrary(const std::vector<std::string>& names) : missing_(names.at(0)) {
    for (const std::string& name : names) {
      handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ == nullptr) continue;
      missing_.clear();
      return;
    }
  }
  template <class Function>
  void Find(const char* name, Function** out) {
    if (!missing_.empty()) return;
    *out = reinterpret_cast<Function*>(dlsym(handle_, name));
    if (*out == nullptr) missing_ = name;
  }
  // The library, or the first function, that was not found; "": none.
  const std::string& missing() const { return missing_; }

 private:
  void* handle_ = nullptr;
  std::string missing_;
};

#define TENON_GPU_MEMBER(name) decltype(&::name) name;
#define TENON_GPU_FIND(name) library.Find(#name, &f_.name);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_NAMED_LIBRARY_H_
