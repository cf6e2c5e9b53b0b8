#include "core/train/switchable_collectives.h"

#include "core/status/status_macros.h"
#include "core/tensor/dtype.h"

namespace tessera {
namespace {

// The group of what returned at once.
constexpr int kNotStarted = -1;

}  // namespace

StartedCollective SwitchableCollectives::Start(const CollectiveRequest& request, int group,
                                               const void* input, void* output,
                                               const FlatGroup::Range& unread) {
  if (return_at_once_ && IsFloating(request.dtype)) return {kNotStarted};
  if (recording_) recorded_.push_back({&request, group, input, output, unread});
  return actual_.Start(request, group, input, output, unread);
}

absl::Status SwitchableCollectives::Wait(const StartedCollective& started) {
  return started.group == kNotStarted ? absl::OkStatus() : actual_.Wait(started);
}

absl::Status SwitchableCollectives::RunRecorded() {
  for (const Call& call : recorded_) {
    RETURN_IF_ERROR(actual_.Wait(
        actual_.Start(*call.request, call.group, call.input, call.output, call.unread)));
  }
  return absl::OkStatus();
}

}  // namespace tessera
