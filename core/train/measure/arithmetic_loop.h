// Computation to measure beside: arithmetic on data that stay in the first cache.
#ifndef TESSERA_CORE_TRAIN_MEASURE_ARITHMETIC_LOOP_H_
#define TESSERA_CORE_TRAIN_MEASURE_ARITHMETIC_LOOP_H_

#include <cstdint>
#include <vector>

namespace tessera {

// Not thread-safe.
class ArithmeticLoop {
 public:
  // Measures how long a pass takes, for a millisecond.
  explicit ArithmeticLoop(int threads = 1);

  // Returns the passes that took `seconds` when the loop was made; at least 1.
  int64_t PassesFor(double seconds) const;
  // Computes on all threads, so many passes on each.
  void Run(int64_t passes);

 private:
  std::vector<std::vector<float>> values_;  // by thread
  double passes_per_second_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_MEASURE_ARITHMETIC_LOOP_H_
