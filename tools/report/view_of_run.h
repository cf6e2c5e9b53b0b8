// The view of a training run that tools/train has set up.
#ifndef TESSERA_TOOLS_REPORT_VIEW_OF_RUN_H_
#define TESSERA_TOOLS_REPORT_VIEW_OF_RUN_H_

#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "tools/report/step_view.h"
#include "tools/train/setup/configure.h"

namespace tessera {

// Returns what a report shows of the training step of a compiled run, which must have one, by the
// prices of its estimate. Takes up to some seconds for the largest models. Thread safety: a pure
// function.
absl::StatusOr<StepView> ViewOfRun(const ConfiguredRun& configured, const CompiledRun& run);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_VIEW_OF_RUN_H_
