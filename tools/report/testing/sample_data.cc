#include "tools/report/testing/sample_data.h"

#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/cost/cluster.h"
#include "core/cost/step_cost.h"
#include "core/kernels/cpu/backend.h"
#include "core/status/check.h"
#include "core/text/human_units.h"
#include "core/train/programs.h"
#include "google/protobuf/text_format.h"
#include "models/gpt/gpt.h"

namespace tessera {
namespace {

constexpr int kBatch = 16, kSequence = 64, kRanks = 4;

RunConfig RunOf(const std::string& recompute, int micro_batches) {
  RunConfig config;
  config.set_batch(kBatch);
  config.set_sequence(kSequence);
  config.set_micro_batches(micro_batches);
  config.set_recompute(recompute);
  config.mutable_optimizer()->set_kind("adamw");
  return config;
}

const Graph& TrainOf(const std::vector<Graph>& graphs) {
  for (const Graph& graph : graphs) {
    if (graph.name() == kTrain) return graph;
  }
  TESSERA_CHECK(false) << "there is no training step";
  return graphs[0];
}

// Invents measurements that differ from the prediction as real ones would.
void InventMeasurements(int number, ReportedStrategy* strategy) {
  const StepCost& cost = *strategy->estimated;
  strategy->outcome = ReportedOutcome::kRan;
  MeasuredStep measured;
  measured.steps = 40;
  measured.median_seconds = cost.step_seconds() * (0.97 + 0.03 * number);
  measured.first_quartile_seconds = 0.98 * measured.median_seconds;
  measured.third_quartile_seconds = 1.05 * measured.median_seconds;
  measured.exposed_seconds = 0.9 * cost.exposed_seconds();
  measured.computation_seconds = measured.median_seconds - measured.exposed_seconds;
  measured.peak_bytes = cost.peak_bytes();
  strategy->measured = measured;
  strategy->calibrated = cost;
  strategy->calibrated->set_step_seconds(1.01 * measured.median_seconds);
  for (int step = 0; step <= 40; ++step) {
    const double noise = 0.08 * std::sin(1.7 * step) + 0.05 * std::cos(5.1 * step);
    strategy->losses.push_back(2.1 + 2.3 * std::exp(-0.09 * step) + noise + 1e-7 * number);
  }
}

ReportedStrategy FailedStrategy() {
  ReportedStrategy strategy;
  // Labels are a user's texts, and need not be short.
  strategy.label = "<b>\"mine\"</b>=plans/of_another_team/fully_sharded_within_a_host.textproto";
  strategy.outcome = ReportedOutcome::kFailed;
  strategy.remark = "failed";
  strategy.fault =
      "the Plan's store 'wte.wieght' matches no state of the Graphs; similar is 'wte.weight'";
  strategy.ranks = kRanks;
  return strategy;
}

// Returns the label of an entry with options for one of the Plans.
std::string LabelOf(const std::string& plan) {
  return plan == "zero1" ? "fsdp:shard=optimizer,bucket=4MiB,prefetch=2" : plan;
}

void SetDoesNotFit(ReportedStrategy* strategy) {
  const std::string needed = FormatBytes(strategy->estimated->peak_bytes());
  strategy->outcome = ReportedOutcome::kDoesNotFit;
  strategy->remark = absl::StrCat("does not fit: ", needed);
  strategy->fault =
      absl::StrCat(strategy->label, " needs ", needed, " on each rank, and the memory limit is ",
                   FormatBytes(strategy->memory_limit_bytes));
}

ReportData SampleHead(const std::string& title) {
  ReportData data;
  data.title = title;
  data.written_by = "the sample of tools/report";
  data.rate = "tokens/s";
  data.model = "gpt: a small one, 16 sequences of 64 tokens a step, adamw";
  data.machine = "a CPU of two cores";
  data.ranks = absl::StrCat(kRanks, " ranks, tcp");
  data.threads = 1;
  data.cluster = SampleCluster().name();
  return data;
}

}  // namespace

std::vector<Graph> RecordSampleGpt(int layers, int channels, const std::string& recompute,
                                   int micro_batches) {
  GptConfig model;
  model.set_layers(layers);
  model.set_heads(4);
  model.set_channels(channels);
  model.set_vocabulary(1024);
  model.set_context(kSequence);
  const auto created = CreateGpt(model);
  TESSERA_CHECK(created.ok()) << created.status();
  auto graphs = RecordRun(**created, RunOf(recompute, micro_batches), RunGraphs::kAll);
  TESSERA_CHECK(graphs.ok()) << graphs.status();
  return *std::move(graphs);
}

Plan SamplePlan(const std::string& name, const std::string& recompute, int micro_batches) {
  const std::string path = absl::StrCat("docs/plans/", name, ".textproto");
  std::ifstream file(path);
  TESSERA_CHECK(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  Plan plan;
  TESSERA_CHECK(google::protobuf::TextFormat::ParseFromString(text.str(), &plan)) << path;
  PlanPart& part = *plan.mutable_stages(0)->add_parts();
  part.set_graph(kTrain);
  part.set_micro_batches(micro_batches);
  if (!recompute.empty()) part.add_recompute(recompute);
  return plan;
}

CompiledRun CompileSample(const std::vector<Graph>& graphs, const Plan& plan, int ranks) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  auto run = CompileRun(graphs, plan, *backend, ranks);
  TESSERA_CHECK(run.ok()) << run.status();
  return *std::move(run);
}

Cluster SampleCluster() {
  auto cluster = ReadCluster("docs/clusters/ethernet_10g.textproto");
  TESSERA_CHECK(cluster.ok()) << cluster.status();
  return *std::move(cluster);
}

ReportedStrategy SampleStrategy(const std::string& label, const std::vector<Graph>& graphs,
                                const Plan& plan, int ranks) {
  const CompiledRun run = CompileSample(graphs, plan, ranks);
  const Cluster cluster = SampleCluster();
  const GroupSite site = SiteOnCluster(cluster, ranks);
  ReportedStrategy strategy;
  strategy.label = label;
  strategy.ranks = ranks;
  strategy.units = kBatch * kSequence;
  strategy.estimated = EstimateStep(*run.FindProgram(kTrain), cluster, site, nullptr);
  strategy.view = MakeStepView(TrainOf(graphs), run, cluster, site, nullptr);
  return strategy;
}

ReportData SampleComparison(int strategies, int layers, int channels) {
  const std::vector<Graph> graphs = RecordSampleGpt(layers, channels);
  ReportData data = SampleHead(absl::StrCat(strategies, " strategies compared on gpt"));
  data.notes = {"this is a sample: predicted values are real, measured ones are invented"};
  data.checks = {"All strategies had the same initial parameters and read the same tokens.",
                 "The losses, the norms, all gradients and all updates of three steps were the "
                 "same, up to the "
                 "rounding of sums."};
  data.commands = {
      "./bazelw run //tools/compare -- --model=gpt --strategies=data_parallel,fully_sharded "
      "--steps=40 --nproc=4 --report=report.html"};
  const std::vector<std::string> plans =
      strategies > 2 ? std::vector<std::string>{"data_parallel", "fully_sharded", "zero1",
                                                "data_tensor_parallel", "offloaded"}
                     : std::vector<std::string>{"data_parallel", "fully_sharded"};
  int64_t limit = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    ReportedStrategy strategy =
        SampleStrategy(LabelOf(plans[i]), graphs, SamplePlan(plans[i]), kRanks);
    // If there are many, the first one does not fit.
    if (strategies > 2 && i == 0) limit = strategy.estimated->peak_bytes() * 9 / 10;
    strategy.memory_limit_bytes = limit;
    if (limit > 0 && strategy.estimated->peak_bytes() > limit) {
      SetDoesNotFit(&strategy);
    } else {
      InventMeasurements(static_cast<int>(i), &strategy);
    }
    data.strategies.push_back(std::move(strategy));
  }
  if (strategies > 2) data.strategies.push_back(FailedStrategy());
  return data;
}

ReportData SamplePlanning() {
  ReportData data = SampleHead("Strategies for gpt on up to 8 ranks");
  data.ranks.clear();
  data.recommendation = "This is a sample: the sentence that recommends a strategy stands here.";
  data.commands = {"./bazelw run //tools/plan -- --model=gpt --report=report.html"};
  const std::vector<Graph> graphs = RecordSampleGpt(4, 384, "block", 2);
  for (const char* plan : {"fully_sharded", "offloaded"}) {
    for (const int ranks : {2, 8}) {
      data.strategies.push_back(SampleStrategy(absl::StrCat(plan, ", ", ranks, " ranks"), graphs,
                                               SamplePlan(plan, "blocks.*", 2), ranks));
    }
  }
  return data;
}

}  // namespace tessera
