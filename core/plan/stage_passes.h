// The passes that a Plan's stage lists: when the communication of its Programs runs, and what lies
// in host memory.
#ifndef TESSERA_CORE_PLAN_STAGE_PASSES_H_
#define TESSERA_CORE_PLAN_STAGE_PASSES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Gradients of several parameters are reduced as one array.
struct GradientBuckets {
  int64_t cap_bytes = int64_t{25} << 20;   // a bucket is closed before it would exceed this
  int64_t first_bytes = int64_t{1} << 20;  // the same, for the bucket that is ready first
};

// The tensors that lie in host memory while they are not used.
struct Offload {
  bool parameters = false;
  bool gradients = false;
  bool optimizer_state = false;
  // A copy to the device begins so many uses of offloaded tensors before the one that needs it.
  int32_t distance = 1;
};

// The options of a stage's passes. A pass that the stage does not list is absent.
struct StagePasses {
  std::optional<GradientBuckets> bucket_gradients;
  // How many groups before the one that is used are gathered.
  std::optional<int32_t> prefetch_distance;
  // How many gathered groups may be in memory that are not used yet, or still in use.
  std::optional<int32_t> gathers_in_flight;
  std::optional<Offload> offload;
  std::vector<PassChoice> of_plugins;  // in order
};

// Reads the passes of a stage. InvalidArgument, in one line, names the pass that does not exist, is
// listed twice or belongs to a part, the option that a pass does not have, or the value that does
// not fit, and what would be right.
absl::StatusOr<StagePasses> ReadStagePasses(const Stage& stage);

// Fills in the options that the stage's passes leave out. ReadStagePasses accepts the stage.
void CompleteStagePasses(Stage& stage);

// The passes that a stage may list, each with what it does in one line.
struct StagePassHelp {
  absl::string_view name, help;
};
absl::Span<const StagePassHelp> StagePassesWithHelp();

// The names of the options that a choice of a pass has.
std::vector<std::string> PassOptionsIn(const PassChoice& choice);

// Whether a stage, not a part, lists a pass of this name.
bool IsStagePass(absl::string_view name);
// Whether a stage that lists it needs a mesh, as for communication.
bool NeedsMesh(const PassChoice& choice);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_STAGE_PASSES_H_
