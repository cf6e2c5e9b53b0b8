// Compares candidates that a planning context lowers one after another, and that share what it
// keeps, with each one compiled by itself.
#include "core/compile/candidates.h"

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/compile/compile.h"
#include "core/cost/cluster.h"
#include "core/program/proto/program_proto.h"
#include "core/proto/plan.pb.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "strategies/host/planning_context.h"
#include "tests/plans/random/draw_plan.h"
#include "tests/plans/random/plan_case.h"
#include "tests/plans/random/random.h"
#include "tests/plans/random/trained_models.h"

namespace tessera {
namespace {

// Shared by a model's candidates for some number of ranks.
struct Search {
  std::unique_ptr<Backend> backend;
  std::shared_ptr<const std::vector<Graph>> graphs;
  std::unique_ptr<PlanningContext> context;
  std::unique_ptr<CandidateCompiler> compiler;
  std::vector<Plan> tried;
};

Search MakeSearch(const TrainedModel& model, int ranks) {
  Search search;
  search.backend = model.run.backend();
  search.graphs = std::make_shared<const std::vector<Graph>>(model.run.graphs);
  Cluster cluster = ClusterOfMachine("candidates", MachineRates());
  cluster.set_ranks_per_host(2);
  search.context = std::make_unique<PlanningContext>(
      search.graphs,
      PlanningFor{search.backend.get(), ranks, cluster, SiteOnCluster(cluster, ranks)});
  size_t step = 0;
  while ((*search.graphs)[step].name() != kTrain) ++step;
  search.compiler =
      std::make_unique<CandidateCompiler>(search.graphs, step, search.backend.get(), ranks);
  return search;
}

template <typename Choices>
void RemoveOne(Random& random, Choices* choices) {
  if (choices->empty()) return;
  choices->DeleteSubrange(static_cast<int>(random.Below(choices->size())), 1);
}

// Changes one decision of a Plan, as a search does from one candidate to the next.
void ChangeOne(Random& random, Plan& plan) {
  Stage& stage = *plan.mutable_stages(0);
  switch (random.Below(8)) {
    case 0:
      return RemoveOne(random, stage.mutable_compute());
    case 1:
      return RemoveOne(random, stage.mutable_store());
    case 2:
      return RemoveOne(random, stage.mutable_group());
    case 3:
      return RemoveOne(random, stage.mutable_pass());
    case 4:
      return stage.clear_precision();
    case 5:
    case 6:
      if (stage.group_size() == 0) return;
      stage.mutable_group(static_cast<int>(random.Below(stage.group_size())))
          ->set_gather(random.Percent(50) ? GroupChoice::ONCE : GroupChoice::EACH_PHASE);
      return;
    default:
      break;
  }
  if (stage.parts_size() == 0) stage.add_parts()->set_graph(kTrain);
  PlanPart& part = *stage.mutable_parts(static_cast<int>(random.Below(stage.parts_size())));
  switch (random.Below(3)) {
    case 0:
      return RemoveOne(random, part.mutable_compute());
    case 1:
      return part.set_micro_batches(1 + random.Below(2));
    default:
      if (part.recompute_size() > 0) return part.clear_recompute();
      return part.add_recompute(random.Percent(50) ? "blocks.*" : "blocks.0");
  }
}

// Returns whether the candidate could be compiled.
bool ExpectSameAsAlone(const Search& search, const Plan& plan, int ranks) {
  const std::string text = plan.ShortDebugString();
  const absl::StatusOr<CompiledRun> alone =
      CompileRun(*search.graphs, plan, *search.backend, ranks);
  const absl::StatusOr<CompiledCandidate> candidate = search.compiler->Compile(plan);
  strategy::LowerPlans request;
  *request.add_plans() = plan;
  const strategy::LoweredPlans lowered = search.context->Lower(request);
  EXPECT_EQ(candidate.status(), alone.status()) << text;
  EXPECT_EQ(lowered.plans(0).error(), std::string(alone.status().message())) << text;
  if (!alone.ok() || !candidate.ok()) return false;
  const Program& expected = *alone->FindProgram(kTrain);
  EXPECT_EQ(candidate->step.ToString(), expected.ToString()) << text;
  // The message has what the text leaves out, such as strides and costs.
  EXPECT_TRUE(ToProto(candidate->step).SerializeAsString() == ToProto(expected).SerializeAsString())
      << text;
  for (const MemorySpace space : kAllMemorySpaces) {
    EXPECT_EQ(candidate->arenas[space], alone->arenas[space]) << text;
  }
  EXPECT_EQ(lowered.plans(0).cost().SerializeAsString(),
            search.context->Estimate(*alone).SerializeAsString())
      << text;
  return true;
}

std::string CostOf(const PlanningContext& context, const Plan& plan) {
  strategy::LowerPlans request;
  *request.add_plans() = plan;
  return context.Lower(request).SerializeAsString();
}

TEST(CandidatesTest, ThreadsShareAContext) {
  const std::vector<TrainedModel> models = TrainModelsAlone();
  const TrainedModel& model = *FindModel(models, "gpt_run");
  const Search search = MakeSearch(model, 4);
  std::vector<Plan> plans;
  std::vector<std::string> costs;  // each of a context of its own
  for (int i = 0; plans.size() < 20; ++i) {
    const PlanCase drawn = DrawPlan(models, /*seed=*/8, i);
    if (drawn.model != model.name || drawn.ranks != 4) continue;
    plans.push_back(drawn.plan);
    costs.push_back(CostOf(*MakeSearch(model, 4).context, drawn.plan));
  }
  std::vector<std::thread> threads;
  for (size_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (size_t i = 0; i < 2 * plans.size(); ++i) {
        const size_t plan = (first * 5 + i) % plans.size();
        EXPECT_EQ(CostOf(*search.context, plans[plan]), costs[plan]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CandidatesTest, AreAsCompiledAlone) {
  const std::vector<TrainedModel> models = TrainModelsAlone();
  std::map<std::pair<std::string, int>, Search> searches;
  Random random(/*seed=*/7, /*number=*/0);
  int compiled = 0, count = 0;
  for (int i = 0; i < 250; ++i) {
    const PlanCase drawn = DrawPlan(models, /*seed=*/7, i);
    const auto [it, is_new] = searches.try_emplace({drawn.model, drawn.ranks});
    Search& search = it->second;
    if (is_new) search = MakeSearch(*FindModel(models, drawn.model), drawn.ranks);
    search.tried.push_back(drawn.plan);
    for (int variant = 0; variant < 4; ++variant) {
      Plan plan = variant == 0 ? drawn.plan : random.Of(search.tried);
      if (variant > 1) ChangeOne(random, plan);
      ++count;
      if (ExpectSameAsAlone(search, plan, drawn.ranks)) {
        ++compiled;
        if (variant > 1) search.tried.push_back(std::move(plan));
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(compiled, count / 2);
}

}  // namespace
}  // namespace tessera
