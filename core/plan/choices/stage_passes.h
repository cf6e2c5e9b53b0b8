// The passes that a Plan's stage lists. They decide when the communication of its Programs runs,
// and which tensors are kept in host memory.
#ifndef TESSERA_CORE_PLAN_CHOICES_STAGE_PASSES_H_
#define TESSERA_CORE_PLAN_CHOICES_STAGE_PASSES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Options of bucketing: gradients of several parameters are reduced as one array.
struct GradientBuckets {
  int64_t cap_bytes = int64_t{25} << 20;   // a bucket is closed before it would exceed this
  int64_t first_bytes = int64_t{1} << 20;  // the same, for the first bucket to be reduced
};

// The tensors that are kept in host memory while they are not used.
struct Offload {
  bool parameters = false;
  bool gradients = false;
  bool optimizer_state = false;
  // A copy to the device begins this many uses of offloaded tensors before the use that needs it.
  int32_t distance = 1;
};

// The options of a stage's passes. A pass that the stage does not list is absent.
struct StagePasses {
  std::optional<GradientBuckets> bucket_gradients;
  // How many groups ahead of the one in use are gathered.
  std::optional<int32_t> prefetch_distance;
  // How many gathered groups may be in memory at a time, in use or not used yet.
  std::optional<int32_t> gathers_in_flight;
  std::optional<Offload> offload;
  std::vector<PassChoice::PluginPass> of_plugins;  // in order
};

// Reads the passes of a stage. InvalidArgument, in one line, names the fault and the remedy: an
// empty choice, a pass that is listed twice, a value that does not fit, or a plugin that is not
// named by a plain name (core/text/plain_name.h).
absl::StatusOr<StagePasses> ReadStagePasses(const Stage& stage);

// Returns whether a stage of the Plan lists passes of plugins.
bool ListsPluginPasses(const Plan& plan);

// Fills in the options that the stage's passes leave out. ReadStagePasses must have accepted the
// stage.
void CompleteStagePasses(Stage& stage);

// A pass that a stage may list, with a line that says what it does.
struct StagePassHelp {
  absl::string_view name, help;
};
absl::Span<const StagePassHelp> StagePassesWithHelp();

// Returns the name of the pass, which a field of `choice` has; "" if the choice is empty.
absl::string_view NameOf(const PassChoice& choice);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_CHOICES_STAGE_PASSES_H_
