// A compiled training step as a report shows it: when its work runs, its memory over time, and its
// Plan by layer. Small, whatever the size of the Program.
#ifndef TESSERA_TOOLS_REPORT_STEP_VIEW_H_
#define TESSERA_TOOLS_REPORT_STEP_VIEW_H_

#include <cstdint>
#include <vector>

#include "core/compile/compile.h"
#include "core/cost/prices/measured_prices.h"
#include "core/graph/graph.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/proto/cluster.pb.h"
#include "tools/report/view/live_memory.h"
#include "tools/report/view/plan_rows.h"
#include "tools/report/view/step_lanes.h"

namespace tessera {

struct StepView {
  double step_seconds = 0;  // predicted: those of EstimateStep with the same prices
  int64_t instructions = 0;
  std::vector<StepLane> lanes;
  std::vector<LiveMemory> memory;  // of the device, and of the host if anything is offloaded
  PlanRows plan;
};

// Returns the view of the training step of a run. `recorded` is the step's Graph as the model
// recorded it (RecordTrain); `run` must have its Program. The times are predicted by PredictStep
// with `cluster`, `site` and `measured`, which may be null. Takes time in proportion to the
// Program's instructions and buffers.
//
// Thread safety: a pure function.
StepView MakeStepView(const Graph& recorded, const CompiledRun& run, const Cluster& cluster,
                      const GroupSite& site, const MeasuredPrices* measured);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_STEP_VIEW_H_
