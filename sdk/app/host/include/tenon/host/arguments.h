// SPDX-License-Identifier: Apache-2.0
// What is wrong with the arguments of a C function, before any of them is read: NULL that may not be, spans and lists
// that are not where they say, ranks and counts that cannot be. A function names its arguments in one line; who may be
// NULL (TENON_NULLABLE) is left out:
//
//   // "'nodes' is NULL, with a count of 3"
//   const Fault fault = TENON_FAULT_AMONG(graph, name, List(nodes, count), out_text);
//
// Nothing is copied or allocated by a size before it is known to be possible. For libraries that have C functions above
// libtenon's, as libtenon itself: a struct of theirs with spans and lists gets a Rule.
#ifndef TENON_HOST_ARGUMENTS_H_
#define TENON_HOST_ARGUMENTS_H_

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenon/app.h"

namespace tenon::arguments {

inline constexpr uint64_t kMostElements = INT32_MAX;  // of a list; nodes, edges and names have numbers in 32 bits
inline constexpr uint64_t kMostBytes = (uint64_t{1} << 40) - 1;  // of a text, a message, a string
inline constexpr uint64_t kMostAddress = uint64_t{1} << 47;   // of what one process sees

// None, or one of an argument, "options.plugins[2]". None costs nothing: it is one pointer.
class Fault {
 public:
  Fault() = default;
  [[gnu::cold]] Fault(std::string where, std::string what, uint32_t code = TENON_INVALID_ARGUMENT)
      : words_(std::make_unique<Words>(std::move(where), std::move(what), code)) {}
  explicit operator bool() const { return words_ != nullptr; }
  // Of one.
  std::string text() const { return "'" + words_->where + "' " + words_->what; }
  uint32_t code() const { return words_->code; }
  // The same within something else: "plugins[2]" within "options.". Nothing happens to none.
  Fault Within(std::string_view outer) && {
    if (words_ != nullptr) words_->where.insert(0, outer);
    return std::move(*this);
  }

 private:
  struct Words {
    Words(std::string its_where, std::string its_what, uint32_t its_code)
        : where(std::move(its_where)), what(std::move(its_what)), code(its_code) {}
    std::string where, what;
    uint32_t code;
  };
  std::unique_ptr<Words> words_;
};

// What values of a type must be. None: any will do.
template <typename T>
struct Rule;
template <typename T>
concept Ruled = requires(const T& value) {
  { Rule<T>::Find(value) } -> std::same_as<Fault>;
};
template <typename T>
Fault FaultOf(const T& value) {
  if constexpr (Ruled<T>) return Rule<T>::Find(value);
  return {};
}

// ---- Names ----

// Of element `index` of "graph, List(options.nodes, count)": "graph", "nodes".
inline std::string NameAt(std::string_view names, size_t index) {
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= names.size(); ++i) {
    const char c = i < names.size() ? names[i] : ',';
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c != ',' || depth != 0) continue;
    if (index == 0) {
      std::string_view name = names.substr(begin, i - begin);
      if (const size_t inner = name.find('('); inner != std::string_view::npos)
        name = name.substr(inner + 1, name.find_first_of(",)", inner) - inner - 1);
      if (const size_t member = name.find_last_of(".> "); member != std::string_view::npos)
        name.remove_prefix(member + 1);
      return std::string(name);
    }
    --index;
    begin = i + 1;
  }
  return {};
}

template <typename... Values>
Fault FaultAmong(const char* names, const Values&... values) {
  size_t index = 0;
  Fault fault;
  const auto fails = [&](const auto& value) {
    fault = FaultOf(value);
    if (!fault) ++index;
    return static_cast<bool>(fault);
  };
  if (!(fails(values) || ...)) return {};
  return std::move(fault).Within(NameAt(names, index));
}
#define TENON_FAULT_AMONG(...) ::tenon::arguments::FaultAmong(#__VA_ARGS__, __VA_ARGS__)

// The same of the members of a struct, in its Rule.
#define TENON_FAULT_WITHIN(...) TENON_FAULT_AMONG(__VA_ARGS__).Within(".")

// ---- Pointers and lists ----

template <typename T>
concept Sized = requires(const T& value) { value.struct_size; };

// Not NULL. What it leads to is looked at where it is given to be read, and does not say its size itself (ReadSized).
template <typename T>
struct Rule<T*> {
  static Fault Find(T* pointer) {
    if (pointer == nullptr) return {"", "is NULL"};
    if constexpr (std::is_const_v<T>) {
      using Value = std::remove_const_t<T>;
      if constexpr (Ruled<Value> && !Sized<Value>) return FaultOf(static_cast<const Value&>(*pointer));
    }
    return {};
  }
};

// An array whose elements are written, or looked at by somebody else.
template <typename T>
struct Array {
  Array(T* given, uint64_t size) : elements(given), count(size) {}
  T* elements;
  uint64_t count;
};
template <typename T>
struct Rule<Array<T>> {
  static Fault Find(const Array<T>& array) {
    if (array.count > kMostElements)
      return {"", "has a count of " + std::to_string(array.count) + ", which is more than can be"};
    if (array.count > 0 && array.elements == nullptr)
      return {"", "is NULL, with a count of " + std::to_string(array.count)};
    return {};
  }
};

// An array, each of whose elements is looked at.
template <typename T>
struct List : Array<const T> {
  List(const T* given, uint64_t size) : Array<const T>(given, size) {}
};
template <typename T>
struct Rule<List<T>> {
  static Fault Find(const List<T>& list) {
    Fault fault = FaultOf(static_cast<const Array<const T>&>(list));
    if constexpr (Ruled<T>) {
      for (uint64_t i = 0; !fault && i < list.count; ++i)
        if (fault = FaultOf(list.elements[i]); fault) return std::move(fault).Within("[" + std::to_string(i) + "]");
    }
    return fault;
  }
};

// ---- Values ----

template <>
struct Rule<tenon_span> {
  static Fault Find(const tenon_span& span) {
    if (span.size > kMostBytes)
      return {"", "has a size of " + std::to_string(span.size) + ", which is more than can be"};
    if (span.size > 0 && span.data == nullptr) return {"", "is NULL, with a size of " + std::to_string(span.size)};
    return {};
  }
};

inline Fault FaultOfRank(int32_t rank, int32_t least, const int64_t* dims, const char* rank_name,
                         const char* dims_name) {
  if (rank < least || rank > TENON_MAX_RANK)
    return {rank_name, "is " + std::to_string(rank) + "; a rank is from " + std::to_string(least) + " to " +
                           std::to_string(TENON_MAX_RANK)};
  if (rank > 0 && dims == nullptr) return {dims_name, "is NULL, with a rank of " + std::to_string(rank)};
  return {};
}
// One that may be of unknown rank, -1.
template <>
struct Rule<tenon_shape> {
  static Fault Find(const tenon_shape& shape) { return FaultOfRank(shape.rank, -1, shape.dims, ".rank", ".dims"); }
};
// One that may not.
struct Ranked {
  explicit Ranked(const tenon_shape& given) : shape(given) {}
  const tenon_shape& shape;
};
template <>
struct Rule<Ranked> {
  static Fault Find(const Ranked& ranked) {
    return FaultOfRank(ranked.shape.rank, 0, ranked.shape.dims, ".rank", ".dims");
  }
};

// Memory that begins somewhere, and ends in what an address can name.
template <>
struct Rule<tenon_dl_tensor> {
  static Fault Find(const tenon_dl_tensor& dl) {
    if (dl.byte_offset > kMostAddress)
      return {".byte_offset", "is " + std::to_string(dl.byte_offset) + ", which is more than can be"};
    Fault fault = FaultOfRank(dl.ndim, 0, dl.shape, ".ndim", ".shape");
    for (int32_t i = 0; dl.strides != nullptr && !fault && i < dl.ndim; ++i)
      if (static_cast<uint64_t>(dl.strides[i]) + kMostAddress > 2 * kMostAddress)
        fault = {".strides[" + std::to_string(i) + "]",
                 "is " + std::to_string(dl.strides[i]) + ", which is more than can be"};
    return fault;
  }
};
template <>
struct Rule<tenon_tensor_view> {
  static Fault Find(const tenon_tensor_view& view) {
    if (view.byte_size > kMostAddress)
      return {".byte_size", "is " + std::to_string(view.byte_size) + ", which is more than can be"};
    if (view.byte_size > 0 && view.dl.data == nullptr)
      return {".dl.data", "is NULL, with a byte_size of " + std::to_string(view.byte_size)};
    return TENON_FAULT_WITHIN(view.dl);
  }
};

// ---- Structs that may grow ----

// The smaller size into a zeroed one, which is then looked at. Of size 0: all zero it is the defaults.
template <Sized T>
Fault ReadSized(const T& given, T* out) {
  *out = T{};
  const uint32_t size = given.struct_size;
  if (size == 0) {
    if (std::memcmp(&given, out, sizeof(T)) == 0) return {};
    return {".struct_size", "is 0, and other members are not; set it to the struct's sizeof"};
  }
  if (size < 2 * sizeof(uint32_t) || size % alignof(T) != 0)
    return {".struct_size", "is " + std::to_string(size) + "; set it to the struct's sizeof"};
  if (given.must_understand != 0)
    return {"",
            "needs a feature that this library does not have (must_understand " +
                std::to_string(given.must_understand) + ")",
            TENON_UNIMPLEMENTED};
  std::memcpy(static_cast<void*>(out), &given, std::min<size_t>(size, sizeof(T)));
  return FaultOf(*out);
}

}  // namespace tenon::arguments

#endif  // TENON_HOST_ARGUMENTS_H_
