// The Plans that were lowered before.
#ifndef TESSERA_STRATEGIES_HOST_KNOWN_LOWERINGS_H_
#define TESSERA_STRATEGIES_HOST_KNOWN_LOWERINGS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "core/proto/plan.pb.h"
#include "core/proto/strategy.pb.h"
#include "core/sync/mutex.h"

namespace tessera {

// Keeps the results of lowering by their Plans, without errors. Searches within several memory
// limits lower many Plans again.
//
// Thread safety: all methods may be called by any number of threads.
class KnownLowerings {
 public:
  using Lowered = strategy::LoweredPlans::Lowered;

  // Returns the result for a Plan, with its sections only if they are wanted.
  std::optional<Lowered> Find(const Plan& plan, bool sections) const ABSL_LOCKS_EXCLUDED(mutex_);
  // `sections`: the result has them. Forgets the oldest results if all need much memory.
  void Add(const Plan& plan, const Lowered& lowered, bool sections) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A cost has about a kilobyte; the sections of a step of many blocks and micro-batches may have a
  // megabyte.
  static constexpr int64_t kMostBytes = int64_t{64} << 20;

  struct Known {
    Lowered lowered;
    bool sections = false;
    int64_t bytes = 0;
  };

  mutable Mutex mutex_;
  // By the XXH3-128 of the Plan's bytes, which may be many.
  absl::flat_hash_map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> keys_ ABSL_GUARDED_BY(mutex_);  // oldest first
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;             // of all results
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_KNOWN_LOWERINGS_H_
