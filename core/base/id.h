// SPDX-License-Identifier: Apache-2.0
// Id: a number that is of one kind: a node's is no slot's, and neither indexes the other's list. IdVector: a vector
// indexed by one kind.
//
// A class, not an `enum class`: by itself an id is none (a forgotten one is no node 0), and says so where it is asked
// as a condition. As large and as fast as the int32_t in it; files and the ABI carry number().
#ifndef TENON_CORE_BASE_ID_H_
#define TENON_CORE_BASE_ID_H_

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace tenon {

template <typename Kind>
class Id {
 public:
  constexpr Id() = default;  // none
  template <std::integral Number>
  constexpr explicit Id(Number number) : number_(static_cast<int32_t>(number)) {}

  constexpr explicit operator bool() const { return number_ >= 0; }
  constexpr int32_t number() const { return number_; }
  constexpr size_t index() const { return static_cast<size_t>(number_); }  // not of none
  constexpr Id next() const { return Id(number_ + 1); }
  constexpr Id& operator++() {
    ++number_;
    return *this;
  }
  constexpr Id& operator--() {  // of the first: none
    --number_;
    return *this;
  }
  constexpr bool operator==(const Id&) const = default;
  constexpr auto operator<=>(const Id&) const = default;  // none is below all

 private:
  int32_t number_ = -1;
};

// The ids from `first` up to, without, `last`.
template <typename Key>
class IdRange {
 public:
  class Iterator {
   public:
    using value_type = Key;
    using difference_type = std::ptrdiff_t;
    constexpr Iterator() = default;
    constexpr explicit Iterator(Key at) : at_(at) {}
    constexpr Key operator*() const { return at_; }
    constexpr Iterator& operator++() {
      ++at_;
      return *this;
    }
    constexpr Iterator operator++(int) { return Iterator(std::exchange(at_, at_.next())); }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    Key at_;
  };
  constexpr IdRange(Key first, Key last) : first_(first), last_(last < first ? first : last) {}
  constexpr Iterator begin() const { return Iterator(first_); }
  constexpr Iterator end() const { return Iterator(last_); }

 private:
  Key first_, last_;
};

template <typename Key, typename T>
class IdVector {
 public:
  using value_type = T;

  IdVector() = default;
  explicit IdVector(size_t size) : list_(size) {}
  IdVector(size_t size, const T& value) : list_(size, value) {}
  IdVector(std::initializer_list<T> values) : list_(values) {}
  explicit IdVector(std::vector<T> list) : list_(std::move(list)) {}

  decltype(auto) operator[](Key id) { return list_[id.index()]; }
  decltype(auto) operator[](Key id) const { return list_[id.index()]; }
  std::span<const T> Between(Key first, Key end) const {
    return {list_.data() + first.index(), list_.data() + end.index()};
  }
  bool contains(Key id) const { return id && id.index() < list_.size(); }
  // The value, or `otherwise` where there is none.
  T Get(Key id, T otherwise) const { return contains(id) ? list_[id.index()] : std::move(otherwise); }

  size_t size() const { return list_.size(); }
  bool empty() const { return list_.empty(); }
  IdRange<Key> ids() const { return {Key(0), next_id()}; }
  Key next_id() const { return Key(list_.size()); }  // of what is added next
  Key last_id() const { return --next_id(); }        // none when it is empty

  // The new one's id.
  Key push_back(T value) {
    list_.push_back(std::move(value));
    return Key(list_.size() - 1);
  }
  template <typename... Arguments>
  decltype(auto) emplace_back(Arguments&&... arguments) {
    return list_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  void pop_back() { list_.pop_back(); }
  void resize(size_t size) { list_.resize(size); }
  void resize(size_t size, const T& value) { list_.resize(size, value); }
  void assign(size_t size, const T& value) { list_.assign(size, value); }
  void reserve(size_t size) { list_.reserve(size); }
  void clear() { list_.clear(); }
  decltype(auto) back() { return list_.back(); }
  decltype(auto) back() const { return list_.back(); }
  decltype(auto) front() const { return list_.front(); }
  auto rbegin() { return list_.rbegin(); }
  auto rend() { return list_.rend(); }
  auto begin() { return list_.begin(); }
  auto end() { return list_.end(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  const std::vector<T>& list() const { return list_; }
  std::vector<T>& list() { return list_; }
  bool operator==(const IdVector&) const = default;

 private:
  std::vector<T> list_;
};

}  // namespace tenon

template <typename Kind>
struct std::hash<tenon::Id<Kind>> {
  size_t operator()(tenon::Id<Kind> id) const noexcept { return std::hash<int32_t>()(id.number()); }
};

#endif  // TENON_CORE_BASE_ID_H_
