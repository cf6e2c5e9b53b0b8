#include "tests/plans/random/draw_steps.h"

#include <memory>
#include <random>
#include <vector>

#include "core/compile/compile.h"
#include "core/graph/attributes_proto.h"
#include "core/layout/layout_text.h"
#include "core/layout/redistribution/choice_prices.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/layout/testing/random_path.h"
#include "core/plan/complete.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Replaces the steps, unless no steps lead from where the drawn ones end to where they should.
absl::Status DrawSteps(RedistributionFinder& finder, std::mt19937& engine,
                       RedistributionChoice& choice) {
  const Mesh& mesh = finder.mesh();
  ASSIGN_OR_RETURN(const TensorType type, FromProto(choice.type()));
  ASSIGN_OR_RETURN(const MeshLayout from, ParseMeshLayout(choice.from(), mesh));
  ASSIGN_OR_RETURN(const MeshLayout to, ParseMeshLayout(choice.to(), mesh));
  const std::vector<RedistributionStep> steps = DrawPath(from, 3, type, mesh, engine);
  if (steps.empty()) return absl::OkStatus();
  const absl::StatusOr<const Redistribution*> rest = finder.Find(steps.back().to, to, type);
  if (!rest.ok()) return absl::OkStatus();
  choice.clear_step();
  for (const RedistributionStep& step : steps) choice.add_step(step.ToString(mesh));
  for (const RedistributionStep& step : (*rest)->steps) choice.add_step(step.ToString(mesh));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Plan> WithDrawnSteps(const TrainingRun& run, const Plan& plan, int ranks,
                                    uint64_t seed) {
  const std::unique_ptr<Backend> backend = run.backend();
  const auto passes = run.plugin_passes ? run.plugin_passes(*backend) : nullptr;
  ASSIGN_OR_RETURN(CompiledRun compiled,
                   CompileRun(run.graphs, plan, *backend, ranks, passes.get()));
  ASSIGN_OR_RETURN(const Mesh mesh, MeshOfPlan(compiled.plan, ranks));
  RedistributionFinder finder(mesh, &ChoicePrices());
  std::mt19937 engine(static_cast<uint32_t>(seed));
  for (RedistributionChoice& choice : *compiled.plan.mutable_stages(0)->mutable_redistribution()) {
    if (engine() % 2 == 0) RETURN_IF_ERROR(DrawSteps(finder, engine, choice));
  }
  return compiled.plan;
}

}  // namespace tessera
