// Wraps the collectives of a run so that a step's computation and its communication can be timed
// separately.
#ifndef TESSERA_CORE_TRAIN_MEASURE_SWITCHABLE_COLLECTIVES_H_
#define TESSERA_CORE_TRAIN_MEASURE_SWITCHABLE_COLLECTIVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/runtime/collectives.h"

namespace tessera {

// Returns whether an operation can end before the next one begins. A send or receive may not: each
// rank of a ring does both, in some order, and neither can end before the other has begun.
bool EndsByItself(CollectiveOperation operation);

// Not thread-safe. `actual` must outlive it.
class SwitchableCollectives : public Collectives {
 public:
  explicit SwitchableCollectives(Collectives* actual) : actual_(*actual) {}

  absl::StatusOr<int> FindOrCreateGroup(const std::vector<std::string>& mesh_axes) override {
    return actual_.FindOrCreateGroup(mesh_axes);
  }
  int SizeOf(int group) const override { return actual_.SizeOf(group); }
  int PositionIn(int group) const override { return actual_.PositionIn(group); }
  StartedCollective Start(const CollectiveRequest& request, int group, const void* input,
                          void* output, const FlatGroup::Range& unread) override;
  absl::Status Wait(const StartedCollective& started) override;
  bool HasEnded(const StartedCollective& started) const override {
    return actual_.HasEnded(started);
  }
  std::vector<CollectiveCount> Counts() const override { return actual_.Counts(); }

  // If true, each operation other than a send or receive ends before Start returns, so that none
  // overlaps with computation; excluded_nanoseconds() counts the time spent in Start and Wait, and
  // excluded_calls() has the time of each Start since it was set.
  // (The operations cannot be skipped instead: with stale buffers a step computes at another speed,
  // because ids may be invalid, denormal numbers are slow, and an update whose gradients are not
  // finite is skipped.)
  void set_excluded(bool value) {
    excluded_ = value;
    if (value) excluded_calls_.clear();
  }
  const std::vector<int64_t>& excluded_calls() const { return excluded_calls_; }
  int64_t excluded_nanoseconds() const { return excluded_nanoseconds_; }
  // An operation with its operands.
  struct Call {
    const CollectiveRequest* request;
    int group;
    const void* input;
    void* output;
    FlatGroup::Range unread;
  };

  // If true, operations are recorded.
  void set_recording(bool value) { recording_ = value; }
  const std::vector<Call>& recorded() const { return recorded_; }
  // Starts a recorded operation again.
  StartedCollective Start(const Call& call) {
    return actual_.Start(*call.request, call.group, call.input, call.output, call.unread);
  }

 private:
  Collectives& actual_;
  bool excluded_ = false;
  int64_t excluded_nanoseconds_ = 0;
  std::vector<int64_t> excluded_calls_;  // nanoseconds
  bool recording_ = false;
  std::vector<Call> recorded_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_MEASURE_SWITCHABLE_COLLECTIVES_H_
