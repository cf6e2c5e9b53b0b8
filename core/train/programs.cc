#include "core/train/programs.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/graph/attributes_proto.h"
#include "core/model/language_model.h"
#include "core/ops/ops.h"
#include "core/plan/check.h"
#include "core/plan/rewrite/precision_choice.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Records the sum of all elements, in a scope of this name.
Tensor RecordSum(Graph& graph, const std::string& name, Tensor x) {
  Scope scope(&graph, name);
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  return ReduceSum(x, axes);
}

// Returns Internal if a model has recorded other metrics than those that it names.
absl::Status CheckMetrics(const Model& model, const std::vector<Metric>& recorded) {
  std::vector<std::string> names;
  for (const Metric& metric : recorded) names.push_back(metric.name);
  if (names == model.Metrics()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the model names the metrics [",
                                          absl::StrJoin(model.Metrics(), ", "), "], and records [",
                                          absl::StrJoin(names, ", "), "]"));
}

// Records, for each row, the mean loss of its valid targets.
Tensor RecordRowLoss(const MeanLoss& loss) {
  const Tensor of_valid = Multiply(loss.each, loss.valid);
  if (loss.each.rank() == 1) return of_valid;
  std::vector<int64_t> axes;
  for (int i = 1; i < loss.each.rank(); ++i) axes.push_back(i);
  const Tensor sum = ReduceSum(of_valid, axes);
  const Tensor count = ReduceSum(loss.valid, axes);
  const Tensor one = Fill(*count.graph(), {count.dtype(), {}}, 1);
  return Divide(sum, Maximum(count, one));
}

// Records the outputs that have a value for each row: what the model predicts from `output`, and
// the loss, unless it is null.
absl::Status RecordRowOutputs(const Model& model, Tensor output, const MeanLoss* loss,
                              Graph& graph) {
  Scope scope(&graph, "rows");
  std::vector<Prediction> of_rows;
  if (output.valid()) of_rows = model.RecordPredictions(output);
  if (loss != nullptr && loss->each.valid()) of_rows.push_back({"loss", RecordRowLoss(*loss)});
  RETURN_IF_ERROR(graph.status());
  for (const Prediction& each : of_rows) {
    graph.SetOutput(absl::StrCat(kOfRow, each.name), each.values);
  }
  return graph.status();
}

Tensor RecordFirstValue(Graph& graph, const State& state) {
  Scope scope(&graph, state.path);
  const Initializer& initializer = state.initializer;
  switch (initializer.kind) {
    case Initializer::Kind::kConstant:
      return Fill(graph, state.type, initializer.value);
    case Initializer::Kind::kNormal:
      return RandomNormal(graph, state.type, initializer.value, initializer.stddev, state.path);
  }
  return {};
}

}  // namespace

absl::StatusOr<Graph> RecordTrain(const Model& model, const RunConfig& config,
                                  const DecayRule& decays, const StateLimit& state_limit) {
  Graph graph(kTrain);
  graph.LimitState(state_limit);
  const Tensor loss =
      model.RecordLoss(graph, config.batch(), config.sequence(), /*training=*/true).loss.mean;
  std::optional<LossScaling> scaling;
  if (config.dtype() == DTypeName(DType::kF16)) scaling = LossScaling();
  RETURN_IF_ERROR(RecordUpdate(graph, loss, config.optimizer(), decays, scaling));
  return graph;
}

absl::StatusOr<Graph> RecordInitialise(const Graph& train) {
  Graph graph(kInitialise);
  for (const State& state : train.states()) {
    if (state.role == Role::kCache) continue;
    graph.WriteState(state, RecordFirstValue(graph, state));
  }
  RETURN_IF_ERROR(graph.status());
  return graph;
}

absl::StatusOr<Graph> RecordEvaluate(const Model& model, const RunConfig& config, bool rows) {
  Graph graph(kEvaluate);
  const RecordedLoss recorded =
      model.RecordLoss(graph, config.batch(), config.sequence(), /*training=*/false);
  RETURN_IF_ERROR(graph.status());
  RETURN_IF_ERROR(CheckMetrics(model, recorded.metrics));
  const Tensor valid = recorded.loss.valid;
  const Tensor count = RecordSum(graph, "count", valid);
  RETURN_IF_ERROR(graph.status());
  graph.SetOutput("loss", recorded.loss.mean);
  graph.SetOutput("count", count);
  for (const Metric& metric : recorded.metrics) {
    graph.SetOutput(metric.name, RecordSum(graph, metric.name, Multiply(metric.values, valid)));
    RETURN_IF_ERROR(graph.status());
  }
  if (rows) RETURN_IF_ERROR(RecordRowOutputs(model, recorded.output, &recorded.loss, graph));
  return graph;
}

absl::StatusOr<Graph> RecordPredict(const Model& model, const RunConfig& config) {
  if (model.PredictionFields(config.sequence()).empty()) {
    return absl::UnimplementedError("the model predicts nothing of rows without targets");
  }
  Graph graph(kPredict);
  const Tensor output = model.RecordOutput(graph, config.batch(), config.sequence());
  RETURN_IF_ERROR(graph.status());
  RETURN_IF_ERROR(RecordRowOutputs(model, output, /*loss=*/nullptr, graph));
  return graph;
}

absl::StatusOr<Graph> RecordGenerate(const Model& model) {
  const LanguageModel* const language = model.AsLanguageModel();
  if (language == nullptr) return absl::UnimplementedError("the model generates no text");
  Graph graph(kGenerate);
  graph.SetOutput("logits", language->RecordNextToken(graph, language->max_sequence()));
  RETURN_IF_ERROR(graph.status());
  return graph;
}

absl::StatusOr<std::vector<Graph>> RecordRun(const Model& model, const RunConfig& config,
                                             RunGraphs selection, const StateLimit& state_limit) {
  std::vector<Graph> graphs;
  if (selection == RunGraphs::kAll) {
    ASSIGN_OR_RETURN(Graph train, RecordTrain(model, config, DecaysByDefault, state_limit));
    ASSIGN_OR_RETURN(Graph initialise, RecordInitialise(train));
    graphs.push_back(std::move(initialise));
    graphs.push_back(std::move(train));
  }
  if (selection == RunGraphs::kPredict) {
    ASSIGN_OR_RETURN(Graph predict, RecordPredict(model, config));
    graphs.push_back(std::move(predict));
  } else if (selection != RunGraphs::kGenerate) {
    const bool rows = selection == RunGraphs::kEvaluateRows;
    ASSIGN_OR_RETURN(Graph evaluate, RecordEvaluate(model, config, rows));
    graphs.push_back(std::move(evaluate));
  }
  if (selection == RunGraphs::kGenerate ||
      (selection == RunGraphs::kAll && config.sample().tokens() > 0)) {
    ASSIGN_OR_RETURN(Graph generate, RecordGenerate(model));
    graphs.push_back(std::move(generate));
  }
  return graphs;
}

Plan PlanOfConfig(const RunConfig& config, absl::Span<const Graph> graphs) {
  Plan plan;
  plan.set_format(kPlanFormat);
  Stage& stage = *plan.add_stages();
  if (const auto dtype = ParseDType(config.dtype()); dtype.ok() && *dtype != DType::kF32) {
    stage.mutable_precision()->set_parameters(ToProto(*dtype));
    CompletePrecision(stage);
  }
  for (const Graph& graph : graphs) {
    PlanPart& part = *stage.add_parts();
    part.set_graph(graph.name());
    const bool train = graph.name() == kTrain;
    const bool has_batch = train || graph.name() == kEvaluate || graph.name() == kPredict;
    part.set_micro_batches(has_batch ? config.micro_batches() : 1);
    if (train && config.recompute() == "block") {
      for (const std::string& block : graph.blocks()) part.add_recompute(block);
    } else if (train && !config.recompute().empty() && config.recompute() != "none") {
      part.add_recompute(config.recompute());
    }
  }
  return plan;
}

}  // namespace tessera
