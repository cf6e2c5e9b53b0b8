// Collectives of a run, some of whose steps do without them: to time what computation and
// communication take alone.
#ifndef TESSERA_CORE_TRAIN_SWITCHABLE_COLLECTIVES_H_
#define TESSERA_CORE_TRAIN_SWITCHABLE_COLLECTIVES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/runtime/collectives.h"

namespace tessera {

// Not thread-safe. `actual` must outlive it.
class SwitchableCollectives : public Collectives {
 public:
  explicit SwitchableCollectives(Collectives* actual) : actual_(*actual) {}

  absl::StatusOr<int> GroupAlong(const std::vector<std::string>& mesh_axes) override {
    return actual_.GroupAlong(mesh_axes);
  }
  int SizeOf(int group) const override { return actual_.SizeOf(group); }
  int PositionIn(int group) const override { return actual_.PositionIn(group); }
  StartedCollective Start(const CollectiveRequest& request, int group, const void* input,
                          void* output, const FlatGroup::Range& unread) override;
  absl::Status Wait(const StartedCollective& started) override;
  std::vector<CollectiveCount> Counts() const override { return actual_.Counts(); }

  // Whether operations return at once, without having done anything. Those on integers run all the
  // same: a kernel refuses ids that are none.
  void set_return_at_once(bool value) { return_at_once_ = value; }
  // Whether operations are recorded, for RunRecorded.
  void set_recording(bool value) { recording_ = value; }

  // Runs the recorded operations, one after the other. Collective.
  absl::Status RunRecorded();

 private:
  struct Call {
    const CollectiveRequest* request;
    int group;
    const void* input;
    void* output;
    FlatGroup::Range unread;
  };

  Collectives& actual_;
  bool return_at_once_ = false;
  bool recording_ = false;
  std::vector<Call> recorded_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_SWITCHABLE_COLLECTIVES_H_
