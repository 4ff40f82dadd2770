// SPDX-License-Identifier: Apache-2.0
// Attribute values: immutable, cheap to copy, and viewable through the C ABI.
#ifndef TENON_CORE_GRAPH_ATTR_H_
#define TENON_CORE_GRAPH_ATTR_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"
#include "tenon/graph.h"

namespace tenon::graph {

class AttrValue;
using AttrMap = std::map<std::string, AttrValue, std::less<>>;

// A function's name with the attributes that bind its own (func attributes).
struct FunctionRef {
  std::string name;
  std::shared_ptr<const AttrMap> attrs;
};

class AttrValue {
 public:
  AttrValue() = default;
  static AttrValue String(std::string value) { return Strings({std::move(value)}, false); }
  static AttrValue Int(int64_t value) { return Ints({value}, false); }
  static AttrValue Float(float value) { return Floats({value}, false); }
  static AttrValue Bool(bool value) { return Bools({value ? uint8_t{1} : uint8_t{0}}, false); }
  static AttrValue Type(DType value) { return Types({value}, false); }
  static AttrValue OfShape(Shape value) { return Shapes({std::move(value)}, false); }
  static AttrValue OfTensor(Tensor value) { return Tensors({std::move(value)}, false); }
  static AttrValue Function(FunctionRef value) { return Functions({std::move(value)}, false); }
  // A value that a function's caller binds ("placeholder" of AttrValue).
  static AttrValue Placeholder(std::string name);
  static AttrValue Strings(std::vector<std::string> values, bool list = true);
  static AttrValue Ints(std::vector<int64_t> values, bool list = true);
  static AttrValue Floats(std::vector<float> values, bool list = true);
  static AttrValue Bools(std::vector<uint8_t> values, bool list = true);
  static AttrValue Types(std::vector<DType> values, bool list = true);
  static AttrValue Shapes(std::vector<Shape> values, bool list = true);
  static AttrValue Tensors(std::vector<Tensor> values, bool list = true);
  static AttrValue Functions(std::vector<FunctionRef> values, bool list = true);
  // An empty list of unknown kind, as `list {}` stands in files; fits every list type.
  static AttrValue EmptyList();
  // Copies what the ABI's value shows.
  static Result<AttrValue> FromC(const tenon_attr_value& value);

  uint32_t kind() const;  // TENON_ATTR_*, with TENON_ATTR_LIST
  bool empty_list() const;
  size_t size() const;
  const std::string& placeholder() const;
  // Borrowed; valid while a copy of this value lives.
  tenon_attr_value c() const;

  const std::string& s(size_t i = 0) const;
  int64_t i(size_t i = 0) const;
  float f(size_t i = 0) const;
  bool b(size_t i = 0) const;
  DType type(size_t i = 0) const;
  const Shape& shape(size_t i = 0) const;
  const Tensor& tensor(size_t i = 0) const;
  const FunctionRef& function(size_t i = 0) const;

  // Equal values; tensors by bytes (up to a bound, larger ones by identity).
  bool Equals(const AttrValue& other) const;
  size_t Hash() const;
  // Short text for messages.
  std::string ToString() const;

 private:
  struct Rep;
  template <typename Fill>
  static AttrValue Make(uint32_t kind, bool list, Fill fill);
  std::shared_ptr<const Rep> rep_;
};

// "list(int)" for a kind.
std::string AttrKindName(uint32_t kind);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_ATTR_H_
