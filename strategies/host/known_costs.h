// The costs of Plans that were lowered before.
#ifndef TESSERA_STRATEGIES_HOST_KNOWN_COSTS_H_
#define TESSERA_STRATEGIES_HOST_KNOWN_COSTS_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "core/proto/estimate.pb.h"
#include "core/proto/plan.pb.h"
#include "core/sync/mutex.h"

namespace tessera {

// Thread safety: all methods may be called by any number of threads.
class KnownCosts {
 public:
  std::optional<StepCost> Find(const Plan& plan) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets the oldest cost if there are many.
  void Add(const Plan& plan, const StepCost& cost) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr size_t kMost = 4096;  // a cost has about a kilobyte

  mutable Mutex mutex_;
  // By the XXH3-128 of the Plan's bytes, which may be many.
  absl::flat_hash_map<std::string, StepCost> costs_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> keys_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_KNOWN_COSTS_H_
