#include "tools/report/step_view.h"

#include "core/cost/step_cost.h"
#include "core/cost/step_time.h"
#include "core/ids/table.h"
#include "core/status/check.h"

namespace tessera {

StepView MakeStepView(const Graph& recorded, const CompiledRun& run, const Cluster& cluster,
                      const GroupSite& site, const MeasuredPrices* measured) {
  const Program* const program = run.FindProgram(recorded.name());
  TESSERA_CHECK(program != nullptr) << recorded.name();
  const Table<InstructionId, TimeSpan> times = PredictStep(*program, cluster, site, measured);
  StepView view;
  view.step_seconds = StepSeconds(times);
  view.instructions = static_cast<int64_t>(program->instructions.size());
  view.lanes = LanesOf(*program, times);
  view.memory = LiveMemoryOf(*program, times);
  view.plan = PlanRowsOf(recorded, run);
  return view;
}

}  // namespace tessera
