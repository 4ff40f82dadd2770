// SPDX-License-Identifier: Apache-2.0
// The bytes of an Example or a SequenceExample, taken apart where they lie: names of features, their types, and their
// values, packed or one by one.
//
// What is taken is what TensorFlow's own parser takes: an entry of a map is its key and then its value, a list is what
// the first of its fields is, and what stands behind a packed list in it, or behind a feature's first list, does not
// count. Fields that are not known are stepped over in the outermost message alone. Nothing is read outside of the
// bytes, and lengths are checked before anything is taken for them.
#ifndef TENON_SDK_EXAMPLE_WIRE_H_
#define TENON_SDK_EXAMPLE_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "tenon/abi.h"
#include "tenon/sdk/span.h"
#include "tenon/bytes/wire.h"
#include "tenon/tensor.h"

namespace tenon::sdk::example {

// A feature, or a list of features, and its name.
struct Entry {
  std::string_view key, value;
};

constexpr char kDelimited(int field) { return static_cast<char>(field << 3 | 2); }
// of the lists in a feature
constexpr char kBytesTag = kDelimited(1), kFloatTag = kDelimited(2), kIntTag = kDelimited(3);

inline bool TakeNumber(std::string_view& in, uint64_t* out) {
  if (!in.empty() && static_cast<unsigned char>(in[0]) < 0x80) [[likely]] {
    *out = static_cast<unsigned char>(in[0]);
    in.remove_prefix(1);
    return true;
  }
  return sdk::TakeVarint(in, out);
}
// A length and so many bytes.
inline bool TakeBytes(std::string_view& in, std::string_view* out) {
  uint64_t size = 0;
  if (!TakeNumber(in, &size) || size > in.size()) return false;
  *out = in.substr(0, static_cast<size_t>(size));
  in.remove_prefix(static_cast<size_t>(size));
  return true;
}
// The same behind a tag, which must be this one.
inline bool TakeField(std::string_view& in, char tag, std::string_view* out) {
  if (in.empty() || in[0] != tag) return false;
  in.remove_prefix(1);
  return TakeBytes(in, out);
}

// Appends the entries of a map (field 1, again and again).
inline bool TakeMap(std::string_view map, std::vector<Entry>* out) {
  while (!map.empty()) {
    std::string_view entry;
    Entry found;
    if (!TakeField(map, kDelimited(1), &entry)) return false;
    if (!TakeField(entry, kDelimited(1), &found.key) || !TakeField(entry, kDelimited(2), &found.value) ||
        !entry.empty())
      return false;
    out->push_back(found);
  }
  return true;
}

// Appends the features of an Example; `lists`: and those lists of features of a SequenceExample. False where the bytes
// are none.
inline bool TakeMessage(std::string_view message, std::vector<Entry>* features, std::vector<Entry>* lists) {
  while (!message.empty()) {
    std::string_view map;
    if (message[0] == kDelimited(1)) {
      if (!TakeField(message, kDelimited(1), &map) || !TakeMap(map, features)) return false;
    } else if (lists != nullptr && message[0] == kDelimited(2)) {
      if (!TakeField(message, kDelimited(2), &map) || !TakeMap(map, lists)) return false;
    } else {
      sdk::WireReader unknown(message);
      if (!unknown.Next()) return false;
      message.remove_prefix(unknown.whole().size());
    }
  }
  return true;
}

// The dtype of a feature's values; TENON_DT_INVALID for one without a list. False: it is no feature.
inline bool KindOf(std::string_view feature, uint32_t* dtype) {
  *dtype = TENON_DT_INVALID;
  if (feature.empty()) return true;
  if (feature[0] == kBytesTag) *dtype = TENON_DT_STRING;
  else if (feature[0] == kFloatTag) *dtype = TENON_DT_FLOAT;
  else if (feature[0] == kIntTag) *dtype = TENON_DT_INT64;
  else return false;
  return true;
}

// Where values go: all of them, or the first so many, while all are counted.
template <class T>
struct Appended {
  std::vector<T>& values;
  void Put(T value) { values.push_back(value); }
};
template <class T>
struct Limited {
  T* at;
  size_t room;
  size_t count = 0;
  void Put(T value) {
    if (count++ < room) at[count - 1] = value;
  }
};

// Each reads the values of a feature of that kind; false where the bytes are no list.
template <class Sink>
bool TakeFloats(std::string_view feature, Sink& sink) {
  std::string_view list, packed;
  if (!TakeField(feature, kFloatTag, &list)) return false;
  constexpr size_t kSize = sizeof(float), kOne = 1 + kSize;
  float value = 0;
  if (!list.empty() && list[0] == kDelimited(1)) {
    if (!TakeField(list, kDelimited(1), &packed)) return false;
    for (; packed.size() >= kSize; packed.remove_prefix(kSize)) {
      std::memcpy(&value, packed.data(), kSize);
      sink.Put(value);
    }
    return true;
  }
  for (; !list.empty(); list.remove_prefix(kOne)) {
    if (list[0] != (1 << 3 | 5) || list.size() < kOne) return false;
    std::memcpy(&value, list.data() + 1, kSize);
    sink.Put(value);
  }
  return true;
}

template <class Sink>
bool TakeInts(std::string_view feature, Sink& sink) {
  std::string_view list, packed;
  if (!TakeField(feature, kIntTag, &list)) return false;
  uint64_t value = 0;
  if (!list.empty() && list[0] == kDelimited(1)) {
    if (!TakeField(list, kDelimited(1), &packed)) return false;
    while (!packed.empty()) {
      if (!TakeNumber(packed, &value)) return false;
      sink.Put(static_cast<int64_t>(value));
    }
    return true;
  }
  while (!list.empty()) {
    if (list[0] != 1 << 3) return false;
    list.remove_prefix(1);
    if (!TakeNumber(list, &value)) return false;
    sink.Put(static_cast<int64_t>(value));
  }
  return true;
}

template <class Sink>
bool TakeStrings(std::string_view feature, Sink& sink) {
  std::string_view list, value;
  if (!TakeField(feature, kBytesTag, &list)) return false;
  while (!list.empty()) {
    if (!TakeField(list, kDelimited(1), &value)) return false;
    sink.Put(value);
  }
  return true;
}

template <class Sink>
bool Take(std::string_view feature, Sink& sink, int64_t) {
  return TakeInts(feature, sink);
}
template <class Sink>
bool Take(std::string_view feature, Sink& sink, float) {
  return TakeFloats(feature, sink);
}
template <class Sink>
bool Take(std::string_view feature, Sink& sink, std::string_view) {
  return TakeStrings(feature, sink);
}

}  // namespace tenon::sdk::example

#endif  // TENON_SDK_EXAMPLE_WIRE_H_
