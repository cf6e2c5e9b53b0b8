// Random numbers of which a Plan is drawn: the same on every machine and in every process.
#ifndef TESSERA_TESTS_PLANS_RANDOM_RANDOM_H_
#define TESSERA_TESTS_PLANS_RANDOM_RANDOM_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace tessera {

// The generator SplitMix64 (Steele et al. 2014). (The distributions of the standard library differ
// between its implementations.)
//
// Not thread-safe.
class Random {
 public:
  // Plan `number` of a seed has a stream of its own.
  Random(uint64_t seed, uint64_t number) : state_(Mixed(seed + kStep) ^ Mixed(number * 2 + 1)) {}

  // Returns a number from 0 to n - 1.
  int64_t Below(int64_t n) { return static_cast<int64_t>(Mixed(state_ += kStep) % n); }
  bool Percent(int percent) { return Below(100) < percent; }

  template <typename T>
  const T& Of(const std::vector<T>& values) {
    return values[Below(static_cast<int64_t>(values.size()))];
  }

  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(i)]);
  }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15;

  static uint64_t Mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_RANDOM_H_
