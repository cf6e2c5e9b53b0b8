#include "tests/strategies/osdp_fixture.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/cpu/backend.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plan_with.h"

namespace tessera {

GptConfig TinyGpt(int blocks) {
  GptConfig sizes;
  sizes.set_layers(blocks);
  sizes.set_heads(2);
  sizes.set_channels(64);
  sizes.set_vocabulary(300);
  sizes.set_context(32);
  return sizes;
}

RunConfig TinyRun(int batch) {
  RunConfig config;
  config.set_batch(batch);
  config.set_sequence(32);
  config.mutable_optimizer()->set_kind("adamw");
  return config;
}

Cluster SlowNetwork() {
  const auto cluster = ReadCluster("docs/clusters/ethernet_1g.textproto");
  TESSERA_CHECK(cluster.ok()) << cluster.status();
  return *cluster;
}

PlanningSetup SetupOf(const GptConfig& sizes) {
  auto model = CreateGpt(sizes);
  TESSERA_CHECK(model.ok()) << model.status();
  return {.model = *std::move(model)};
}

PlannedRun::PlannedRun(PlanningSetup setup)
    : setup_(std::move(setup)), backend_(MakeCpuBackend(1)) {
  auto graphs = RecordRun(*setup_.model, setup_.config, RunGraphs::kAll);
  TESSERA_CHECK(graphs.ok()) << graphs.status();
  graphs_ = std::make_shared<const std::vector<Graph>>(*std::move(graphs));
  context_ = std::make_shared<const PlanningContext>(
      graphs_, PlanningFor{.catalogue = backend_.get(),
                           .ranks = setup_.ranks,
                           .cluster = setup_.cluster,
                           .site = SiteOnCluster(setup_.cluster, setup_.ranks),
                           .prices = setup_.prices});
}

StepCost PlannedRun::Lower(const Plan& plan) const {
  strategy::LowerPlans request;
  *request.add_plans() = plan;
  const strategy::LoweredPlans lowered = context_->Lower(request);
  EXPECT_EQ(lowered.plans(0).error(), "");
  return lowered.plans(0).cost();
}

absl::StatusOr<PlannedStep> PlannedRun::Ask(const PlanQuestion& question) const {
  const std::string& name = question.strategy;
  ASSIGN_OR_RETURN(const Plugin plugin,
                   Plugin::Load(absl::StrCat("strategies/", name, "/", name, ".so")));
  strategy::PlanRequest request;
  request.set_ranks(setup_.ranks);
  request.set_micro_batches(1);
  request.set_batch(setup_.config.batch());
  *request.mutable_cluster() = setup_.cluster;
  request.set_memory_limit_bytes(question.limit_bytes);
  for (const auto setting : question.open) request.add_open(setting);
  ASSIGN_OR_RETURN(const OptionValues values, ReadOptions(plugin, question.options));
  SetOptions(values, request);
  PluginCallOptions options;
  options.log = [](const std::string&) {};
  options.record = [this](int64_t batch, int64_t sequence) {
    RunConfig config = setup_.config;
    if (batch > 0) config.set_batch(batch);
    if (sequence > 0) config.set_sequence(sequence);
    return RecordRun(*setup_.model, config, RunGraphs::kAll);
  };
  ASSIGN_OR_RETURN(StrategyPlan made, PlanWith(plugin, request, context_, options));
  return PlannedStep{.name = absl::StrCat(name, " ", absl::StrJoin(question.options, ",")),
                     .plan = made.plan,
                     .cost = Lower(made.plan),
                     .explanation = std::move(made.explanation)};
}

std::vector<PlannedStep> PlannedRun::Baselines() const {
  std::vector<PlannedStep> steps;
  for (const PlanQuestion& question :
       {PlanQuestion{"ddp"}, PlanQuestion{"fsdp"}, PlanQuestion{"fsdp", {"reshard=no"}}}) {
    auto step = Ask(question);
    TESSERA_CHECK(step.ok()) << step.status();
    steps.push_back(*std::move(step));
  }
  return steps;
}

const PlannedStep* FastestWithin(int64_t limit_bytes, const std::vector<PlannedStep>& steps) {
  const PlannedStep* fastest = nullptr;
  for (const PlannedStep& step : steps) {
    if (step.cost.peak_bytes() > limit_bytes) continue;
    if (fastest == nullptr || step.cost.step_seconds() < fastest->cost.step_seconds()) {
      fastest = &step;
    }
  }
  return fastest;
}

int64_t LimitNamedBy(const absl::Status& refusal) {
  const std::string message(refusal.message());
  int64_t limit = 0;
  return absl::SimpleAtoi(message.substr(message.rfind(' ') + 1), &limit) ? limit : 0;
}

int64_t SmallestLimit(const PlannedRun& run,
                      const std::vector<strategy::PlanRequest::Setting>& open) {
  const auto refused = run.Ask({.limit_bytes = 1, .open = open});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  const int64_t smallest = LimitNamedBy(refused.status());
  EXPECT_GT(smallest, 1) << refused.status();
  return smallest;
}

std::vector<int64_t> LimitsBetween(int64_t least, int64_t most, int count) {
  std::vector<int64_t> limits;
  for (int i = 0; i < count; ++i) limits.push_back(least + (most - least) * i / (count - 1));
  return limits;
}

int64_t SentBytes(const StepCost& cost) {
  int64_t bytes = 0;
  for (const StepCost::Collective& collective : cost.collectives()) bytes += collective.bytes();
  return bytes;
}

int64_t CallsOf(const StepCost& cost, const std::string& operation) {
  int64_t calls = 0;
  for (const StepCost::Collective& collective : cost.collectives()) {
    if (collective.operation() == operation) calls += collective.calls();
  }
  return calls;
}

int RecomputedBlocks(const Plan& plan) {
  int blocks = 0;
  for (const PlanPart& part : plan.stages(0).parts()) blocks += part.recompute_size();
  return blocks;
}

int64_t MicroBatches(const Plan& plan) {
  int64_t count = 1;
  for (const PlanPart& part : plan.stages(0).parts()) {
    if (part.graph() == kTrain) count = std::max(count, part.micro_batches());
  }
  return count;
}

}  // namespace tessera
