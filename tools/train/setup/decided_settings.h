// The settings that a user may leave open (--batch=search, and micro-batches and recomputation
// without a flag), and their values in a run whose strategy has decided them.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_DECIDED_SETTINGS_H_
#define TESSERA_TOOLS_TRAIN_SETUP_DECIDED_SETTINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/proto/plan.pb.h"
#include "core/proto/strategy.pb.h"
#include "tools/train/flags/flags.h"
#include "tools/train/setup/configure.h"

namespace tessera {

// Returns the settings that a strategy may decide. A resumed run keeps its own.
std::vector<strategy::PlanRequest::Setting> OpenSettings(const CommandLine& line,
                                                         const ConfiguredRun& configured);

// Returns the batch of the run under a strategy's Plan: the default one if that is 0 in the Plan.
// InvalidArgument if the configuration cannot have this batch; the message says why.
absl::StatusOr<int64_t> BatchUnder(const Plan& plan, const ConfiguredRun& configured);

// Closes an open batch: sets its value in the configuration of the run.
absl::Status CloseBatch(int64_t batch, ConfiguredRun& configured);

// Sets micro-batches and recomputation in the configuration of the run to what the completed Plan
// of a strategy decides.
absl::Status SetDecided(const CommandLine& line, const Plan& plan, ConfiguredRun& configured);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_DECIDED_SETTINGS_H_
