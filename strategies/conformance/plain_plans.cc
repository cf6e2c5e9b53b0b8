#include "strategies/conformance/plain_plans.h"

#include <set>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/train/programs.h"

namespace tessera {

Plan DataParallelPlan(const std::vector<Graph>& graphs) {
  Plan plan;
  Stage& stage = *plan.add_stages();
  stage.add_mesh()->set_name("data");
  std::set<std::string> stored;
  for (const Graph& graph : graphs) {
    for (const GraphInput& input : graph.inputs()) {
      const std::string& path = graph.value(input.value).path;
      if (input.batch_dim == kNone || !stored.insert(path).second) continue;
      StoreChoice& store = *stage.add_store();
      store.set_path(path);
      store.set_layout(absl::StrCat("data: S(", input.batch_dim, ")"));
    }
  }
  return plan;
}

Plan FullyShardedPlan(const std::vector<Graph>& graphs) {
  std::vector<std::string> parameters;
  const auto train =
      absl::c_find_if(graphs, [](const Graph& graph) { return graph.name() == kTrain; });
  for (const State& state : train->states()) {
    if (state.role == Role::kParameter && state.trainable) parameters.push_back(state.path);
  }
  Plan plan = DataParallelPlan(graphs);
  GroupChoice& group = *plan.mutable_stages(0)->add_group();
  group.set_path(absl::StrJoin(parameters, "|"));
  group.add_over("data");
  return plan;
}

}  // namespace tessera
