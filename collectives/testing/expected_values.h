// Inputs of operations and their expected results.
#ifndef TESSERA_COLLECTIVES_TESTING_EXPECTED_VALUES_H_
#define TESSERA_COLLECTIVES_TESTING_EXPECTED_VALUES_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "collectives/reduce/reduce.h"
#include "core/tensor/half.h"

namespace tessera::comm {

inline uint64_t Mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x7fb5d329728ea185;
  x ^= x >> 27;
  x *= 0x81dadef4bc2dd44d;
  return x ^ (x >> 33);
}

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;
template <typename T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

template <typename T>
bool SameBits(const T& a, const T& b) {
  return std::memcmp(static_cast<const void*>(&a), static_cast<const void*>(&b), sizeof(T)) == 0;
}

// Element i of a rank's input to the operation `tag`.
template <typename T>
T Value(uint64_t tag, int rank, int64_t i) {
  const uint64_t bits = Mix((tag << 40) ^ (static_cast<uint64_t>(rank) << 34) ^
                            static_cast<uint64_t>(i) ^ 0x9e3779b97f4a7c15);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    // Magnitudes differ, so that another order of summation shows.
    const double magnitude = static_cast<double>(int64_t{1} << (bits % 7));
    const double fraction = static_cast<double>(static_cast<int64_t>(bits) >> 11) * 0x1p-52;
    return T(static_cast<Wide<T>>(fraction * magnitude));
  }
}

// Returns leaf(first), ..., leaf(first + count - 1), reduced in the order of reduce.h.
template <typename W, typename Leaf>
W Tree(int first, int count, Reduction reduction, const Leaf& leaf) {
  if (count == 1) return leaf(first);
  int left = 1;
  while (left * 2 < count) left *= 2;
  const W a = Tree<W>(first, left, reduction, leaf);
  const W b = Tree<W>(first + left, count - left, reduction, leaf);
  if (reduction == Reduction::kMax) return a > b ? a : b;
  if (reduction == Reduction::kMin) return a < b ? a : b;
  if constexpr (std::is_integral_v<W>) {
    return static_cast<W>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

using Hosts = std::vector<std::vector<int>>;

// Returns element i of all ranks, reduced; within hosts first, if there are any.
template <typename T>
Wide<T> Reduced(uint64_t tag, int ranks, const Hosts& hosts, int64_t i, Reduction reduction) {
  const auto value = [&](int rank) { return static_cast<Wide<T>>(Value<T>(tag, rank, i)); };
  if (hosts.empty()) return Tree<Wide<T>>(0, ranks, reduction, value);
  return Tree<Wide<T>>(0, static_cast<int>(hosts.size()), reduction, [&](int host) {
    return Tree<Wide<T>>(0, static_cast<int>(hosts[host].size()), reduction,
                         [&](int k) { return value(hosts[host][k]); });
  });
}

// Returns whether a result is as close to the sum in double as its type allows.
template <typename T>
bool NearSum(T result, uint64_t tag, int ranks, int64_t i) {
  if constexpr (std::is_integral_v<T>) {
    return true;  // exact, or not the same bits
  } else {
    double sum = 0, magnitude = 0;
    for (int r = 0; r < ranks; ++r) {
      const double value = static_cast<double>(static_cast<Wide<T>>(Value<T>(tag, r, i)));
      sum += value;
      magnitude += std::abs(value);
    }
    const double unit = std::is_same_v<T, double>     ? 0x1p-53
                        : std::is_same_v<T, float>    ? 0x1p-24
                        : std::is_same_v<T, BFloat16> ? 0x1p-8
                                                      : 0x1p-11;
    const double got = static_cast<double>(static_cast<Wide<T>>(result));
    return std::abs(got - sum) <= (ranks + 1) * unit * magnitude;
  }
}

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_TESTING_EXPECTED_VALUES_H_
