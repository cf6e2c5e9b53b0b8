// Tensor parallel: each rank computes a part of the heads, of the hidden units of MLPs and of the
// vocabulary, for all rows of the batch that its replica has.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "strategies/api/kit.h"
#include "strategies/api/split_regions.h"

namespace tessera::strategy {
namespace {

constexpr char kData[] = "data", kModel[] = "model";

std::string AlongModel(absl::string_view text) { return absl::StrCat(kModel, ": ", text); }

// Returns what a completed Plan's choice, "data: ...; model: ...", says along the axis "model".
Signature ModelPart(absl::string_view signature) {
  for (absl::string_view clause : absl::StrSplit(signature, "; ")) {
    if (absl::ConsumePrefix(&clause, AlongModel(""))) return ParseSignature(clause);
  }
  return {};
}

// Returns how many ranks share the model: by default those of a host, or all on one host.
int64_t DegreeOf(const Request& request) {
  if (request.Int("degree") > 0) return request.Int("degree");
  const int64_t of_host = request.cluster().ranks_per_host();
  const bool one_host = of_host == 0 || of_host >= request.ranks();
  return one_host || request.NodeRanks() == 0 ? request.ranks() : request.NodeRanks();
}

class Tensor : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    const int64_t ranks = request.ranks(), degree = DegreeOf(request);
    if (ranks % degree != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("degree is ", degree, ": it must divide the ", ranks, " ranks"));
    }
    ASSIGN_OR_RETURN(const RunGraphs graphs, host.Graphs());
    const ModelInfo model = DescribeModel(graphs);
    PlanBuilder plan;
    if (degree < ranks) {
      plan.Axis(kData, ranks / degree);
      plan.SplitBatch(model);
    }
    plan.stage().add_pass()->mutable_bucket_gradients();
    plan.Axis(kModel, degree);
    std::map<std::string, SplitRegions::Use> uses;
    std::set<std::string> edges;
    for (const GraphProto& graph : graphs.graphs()) {
      if (degree == 1 || !absl::c_linear_search(model.batch_graphs, graph.name())) continue;
      DescribeOperators all;
      all.set_graph(graph.name());
      ASSIGN_OR_RETURN(const OperatorDescriptions operators, host.Describe(all));
      const SplitRegions regions(graph, operators);
      uses.insert(regions.uses().begin(), regions.uses().end());
      for (const auto& [path, signature] : regions.Edges()) {
        if (edges.insert(path).second) plan.Compute(path, AlongModel(signature));
      }
      if (!request.Bool("sequence")) continue;
      PlanPart& part = *plan.stage().add_parts();
      part.set_graph(graph.name());
      for (const auto& [path, signature] : regions.OnSequence()) {
        ComputeChoice& choice = *part.add_compute();
        choice.set_path(path);
        choice.set_signature(AlongModel(signature));
      }
    }
    if (degree > 1 && uses.empty()) {
      return absl::InvalidArgumentError(
          "the model has no two products, and no vocabulary, that ranks can share: degree=1 would "
          "train it data parallel");
    }
    for (const auto& [path, use] : uses) plan.Store(path, AlongModel(use.layout));
    return AddUnits(uses, plan.Build(), host);
  }

 private:
  // Stores parameters as a plan uses them, in whole heads: "S(1, 64)", rather than "S(1)".
  static absl::StatusOr<Plan> AddUnits(const std::map<std::string, SplitRegions::Use>& uses,
                                       Plan plan, Host& host) {
    ASSIGN_OR_RETURN(const Plan completed, host.Complete(plan));
    std::map<std::string, Signature> signatures;
    for (const PlanPart& part : completed.stages(0).parts()) {
      for (const ComputeChoice& choice : part.compute()) {
        signatures.try_emplace(choice.path(), ModelPart(choice.signature()));
      }
    }
    for (StoreChoice& store : *plan.mutable_stages(0)->mutable_store()) {
      const auto use = uses.find(store.path());
      if (use == uses.end()) continue;
      const std::vector<std::string>& inputs = signatures[use->second.op].inputs;
      if (use->second.input >= static_cast<int>(inputs.size())) continue;
      const std::string& layout = inputs[use->second.input];
      if (SplitDimension(layout) == SplitDimension(use->second.layout)) {
        store.set_layout(AlongModel(layout));
      }
    }
    return plan;
  }
};

}  // namespace

TESSERA_STRATEGY(
    Tensor,
    {
        .name = "tensor",
        .version = "1.0",
        .summary = "tensor parallel: ranks share heads, hidden units and the vocabulary; "
                   "activations are all-reduced",
        .options = {{"degree", "int 0..", "0",
                     "how many neighbouring ranks share the model, and the rows of the batch that "
                     "they have; 0: those of a host, or all ranks if there is one host; where "
                     "hosts have one rank each, two"},
                    {"sequence", "bool", "false",
                     "norms and residuals are computed on a part of the sequence: activations are "
                     "gathered and reduce-scattered, in less memory"}},
    });

}  // namespace tessera::strategy
