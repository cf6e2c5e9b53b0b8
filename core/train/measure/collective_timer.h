// Times the collectives of a step one by one: alone, and beside computation.
#ifndef TESSERA_CORE_TRAIN_MEASURE_COLLECTIVE_TIMER_H_
#define TESSERA_CORE_TRAIN_MEASURE_COLLECTIVE_TIMER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/cost/prices/collective_curves.h"
#include "core/layout/mesh.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/train/measure/arithmetic_loop.h"
#include "core/train/measure/switchable_collectives.h"
#include "core/train/ranks/ranks.h"

namespace tessera {

// Times the operations that `collectives` has recorded in a step, except sends and receives. It
// overwrites their buffers. Every rank has one, and calls the same methods in the same order. Not
// thread-safe.
class CollectiveTimer {
 public:
  // `threads` are those with which a rank computes. All arguments must outlive it.
  CollectiveTimer(SwitchableCollectives* collectives, Ranks* ranks, int threads);

  // Runs all recorded operations, one after the other.
  absl::Status RunAll();
  // Adds the times of the operations of a step in their places (excluded_calls). They include waits
  // for a rank that computes longer: the mean of the ranks' times is by how much they make a step
  // longer than the mean of the ranks' computation.
  void AddInPlace(const std::vector<int64_t>& nanoseconds);
  // Runs each distinct operation while all ranks compute, and keeps the times. After AddInPlace.
  absl::Status TimeBeside();

  // Returns one measurement of each distinct operation, the medians of all times so far, as the
  // mean of the ranks of all groups of a kind, and forgets the times. `job` gives the host of each
  // rank of the mesh. After TimeBeside.
  absl::StatusOr<CollectiveCurves> TakeCurves(const Mesh& mesh, const GroupSite& job,
                                              const CurveRanks& ranks);

 private:
  // Equal requests in one group.
  struct Distinct {
    SwitchableCollectives::Call call;   // the first of them
    std::vector<double> alone;          // the mean seconds of its calls in a step
    std::vector<double> beside, taken;  // seconds of each call
  };

  // Finds the distinct operations among the recorded ones.
  void FindDistinct();
  // Returns the seconds of a pass of computation while all ranks compute. Collective.
  absl::StatusOr<double> SecondsOfPass();
  // `alone` are its seconds alone, on the slowest rank.
  absl::Status TimeBeside(Distinct& distinct, double alone);

  SwitchableCollectives& collectives_;
  Ranks& ranks_;
  ArithmeticLoop loop_;
  std::vector<Distinct> distinct_;
  std::vector<size_t> distinct_of_;  // by recorded operation; kMessage: not timed
  double seconds_of_pass_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_MEASURE_COLLECTIVE_TIMER_H_
