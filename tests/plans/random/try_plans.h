// Tries many random Plans.
#ifndef TESSERA_TESTS_PLANS_RANDOM_TRY_PLANS_H_
#define TESSERA_TESTS_PLANS_RANDOM_TRY_PLANS_H_

#include <cstdint>
#include <vector>

#include "tests/plans/random/summary.h"
#include "tests/plans/random/trained_models.h"

namespace tessera {

struct TryOptions {
  uint64_t seed = 1;
  int64_t first = 0, count = 100;  // numbers of the seed's Plans
  int workers = 1;                 // processes that train at a time
  double seconds = 30;             // a Plan that takes longer hangs
  int shrunk_per_kind = 1;         // how many failures of a kind are shrunk and printed
};

// Draws the Plans, judges them, and prints those that fail to stdout, each as short as it can be,
// with the command that repeats it. Progress goes to stderr. Call it while the process has one
// thread.
Summary TryPlans(const std::vector<TrainedModel>& models, const TryOptions& options);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_TRY_PLANS_H_
