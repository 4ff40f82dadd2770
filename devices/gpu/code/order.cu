// SPDX-License-Identifier: Apache-2.0
// The k-th largest key of a row is found digit by digit, from the highest on: a block counts how often each value of
// the digit occurs among the elements that agree with the digits found so far. Then what is larger is taken, and of
// what is equal the first ones, and the k are sorted.
#include "code/order.h"

#include "code/group.h"

namespace tenon::gpu {

// Unsigned integers in the order of the elements: NaN is less than every number, -0 equals 0.
template <class T>
using KeyOf = std::conditional_t<sizeof(Wide<T>) == 8, uint64_t, uint32_t>;
template <class T>
TENON_GPU_FUNCTION KeyOf<T> KeyFor(T element) {
  using Key = KeyOf<T>;
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  const Wide<T> value = element;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<Key>(value) ^ kSign;
  } else {
    if (value != value) return 0;
    const Key bits = value == 0 ? 0 : __builtin_bit_cast(Key, value);
    return (bits & kSign) != 0 ? static_cast<Key>(~bits) : bits | kSign;
  }
}

constexpr uint32_t kDigits = 256;  // values of a digit; threads of a block

// The key of the k-th largest, k counting from 1; *out_equal of the elements with that key are among the k.
template <class T>
TENON_GPU_FUNCTION KeyOf<T> FindKey(const T* x, int64_t columns, int64_t k, int64_t* out_equal) {
  using Key = KeyOf<T>;
  TENON_GPU_SHARED(uint32_t, counts, kDigits);
  TENON_GPU_SHARED(uint32_t, found, 2);  // the digit, and how many are above it
  Key prefix = 0;
  for (int shift = 8 * (static_cast<int>(sizeof(Key)) - 1); shift >= 0; shift -= 8) {
    // Of the digits above; shifting by all bits would be undefined.
    const Key mask =
        shift == 8 * (static_cast<int>(sizeof(Key)) - 1) ? Key{0} : static_cast<Key>(~Key{0} << (shift + 8));
    Barrier();
    counts[BlockThread()] = 0;
    Barrier();
    for (int64_t i = BlockThread(); i < columns; i += BlockThreads()) {
      const Key key = KeyFor(x[i]);
      if ((key & mask) == prefix) AtomicAdd(&counts[(key >> shift) & (kDigits - 1)], uint32_t{1});
    }
    Barrier();
    // Thread t sums the digits from the highest down to 255 - t.
    const uint32_t own = counts[kDigits - 1 - BlockThread()];
    uint32_t above, all;
    BlockScan(own, uint32_t{0}, &above, &all, [](uint32_t a, uint32_t b) { return a + b; });
    if (above < k && above + own >= k) {
      found[0] = kDigits - 1 - BlockThread();
      found[1] = above;
    }
    Barrier();
    prefix |= static_cast<Key>(static_cast<Key>(found[0]) << shift);
    k -= found[1];
  }
  *out_equal = k;
  return prefix;
}

// Larger keys first, of equal ones the lower index.
template <class Key>
TENON_GPU_FUNCTION bool IsBefore(Key a, uint32_t a_index, Key b, uint32_t b_index) {
  return a == b ? a_index < b_index : a > b;
}

// A bitonic sort by the block.
template <class Key>
TENON_GPU_FUNCTION void Sort(Key* keys, uint32_t* indices, int64_t count) {
  for (int64_t size = 2; size <= count; size *= 2) {
    for (int64_t stride = size / 2; stride > 0; stride /= 2) {
      Barrier();
      for (int64_t i = BlockThread(); i < count / 2; i += BlockThreads()) {
        const int64_t low = i / stride * stride * 2 + i % stride, high = low + stride;
        const bool forward = (low & size) == 0;
        if (IsBefore(keys[low], indices[low], keys[high], indices[high]) == forward) continue;
        const Key key = keys[low];
        const uint32_t index = indices[low];
        keys[low] = keys[high];
        indices[low] = indices[high];
        keys[high] = key;
        indices[high] = index;
      }
    }
  }
  Barrier();
}

// Puts the k chosen elements of a row into keys and indices, in any order, and what sorts behind them up to `sorted`.
template <class T>
TENON_GPU_FUNCTION void Choose(const TopKParams& p, const T* x, KeyOf<T>* keys, uint32_t* indices) {
  using Key = KeyOf<T>;
  TENON_GPU_SHARED(uint32_t, larger, 1);
  int64_t equal;
  const Key last = FindKey(x, p.columns, p.k, &equal);
  if (BlockThread() == 0) *larger = 0;
  // A row of a variable that another step writes meanwhile may have other elements now than were counted: each place is
  // filled with one that exists, and none beyond.
  for (int64_t i = BlockThread(); i < p.sorted; i += BlockThreads()) {
    keys[i] = 0;
    indices[i] = i < p.k ? 0 : UINT32_MAX;
  }
  Barrier();
  for (int64_t i = BlockThread(); i < p.columns; i += BlockThreads()) {
    const Key key = KeyFor(x[i]);
    if (key <= last) continue;
    const uint32_t at = AtomicAdd(larger, uint32_t{1});
    if (at >= p.k) continue;
    keys[at] = key;
    indices[at] = static_cast<uint32_t>(i);
  }
  // What is equal comes in the order of the indices, after the k - equal that are larger.
  int64_t taken = 0;
  for (int64_t chunk = 0; taken < equal && chunk < p.columns; chunk += BlockThreads()) {
    const int64_t i = chunk + BlockThread();
    const bool is_equal = i < p.columns && KeyFor(x[i]) == last;
    uint32_t before, all;
    BlockScan(is_equal ? uint32_t{1} : uint32_t{0}, uint32_t{0}, &before, &all,
              [](uint32_t a, uint32_t b) { return a + b; });
    if (is_equal && taken + before < equal && equal <= p.k) {
      const int64_t at = p.k - equal + taken + before;
      keys[at] = last;
      indices[at] = static_cast<uint32_t>(i);
    }
    taken += all;
  }
}

template <class T>
TENON_GPU_FUNCTION void TopK(const TopKParams& p) {
  using Key = KeyOf<T>;
  TENON_GPU_SHARED(Key, own_keys, kSortedInBlock);
  TENON_GPU_SHARED(uint32_t, own_indices, kSortedInBlock);
  const bool own = p.sorted <= kSortedInBlock;
  Key* const keys = own ? own_keys : reinterpret_cast<Key*>(p.keys + BlockX() * p.sorted);
  uint32_t* const indices = own ? own_indices : p.indices + BlockX() * p.sorted;
  for (int64_t row = BlockX(); row < p.rows; row += BlocksX()) {
    const T* x = static_cast<const T*>(p.x) + row * p.columns;
    Choose(p, x, keys, indices);
    Sort(keys, indices, p.sorted);
    for (int64_t i = BlockThread(); i < p.k; i += BlockThreads()) {
      const int64_t to = row * p.k + i;
      const uint32_t place = indices[i];
      static_cast<T*>(p.values)[to] = x[place];
      switch (p.place_bytes) {
        case 2: static_cast<int16_t*>(p.places)[to] = static_cast<int16_t>(place); break;
        case 8: static_cast<int64_t*>(p.places)[to] = place; break;
        default: static_cast<int32_t*>(p.places)[to] = static_cast<int32_t>(place);
      }
    }
    Barrier();  // before the next row takes their place
  }
}
TENON_GPU_BLOCK_KERNEL(TopK_f32, TopKParams, TopK<float>)
TENON_GPU_BLOCK_KERNEL(TopK_f64, TopKParams, TopK<double>)
TENON_GPU_BLOCK_KERNEL(TopK_f16, TopKParams, TopK<Half>)
TENON_GPU_BLOCK_KERNEL(TopK_bf16, TopKParams, TopK<Bfloat16>)
TENON_GPU_BLOCK_KERNEL(TopK_i32, TopKParams, TopK<int32_t>)
TENON_GPU_BLOCK_KERNEL(TopK_i64, TopKParams, TopK<int64_t>)

}  // namespace tenon::gpu
