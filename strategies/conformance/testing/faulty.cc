// A data parallel strategy with a fault that the option names, which the checks must find.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/api/kit.h"
#include "strategies/conformance/testing/faulty_passes.h"

namespace tessera::strategy {
namespace {

// Returns the pass that a fault needs for this request; "" if it is none of a pass, or if it shows
// itself in other requests alone.
std::string PassOf(const std::string& fault, const Request& request, const RunGraphs& graphs) {
  const int ranks = request.ranks();
  if (fault == "five_to_seven_ranks") return ranks >= 5 && ranks <= 7 ? "reduce_wrongly" : "";
  if (fault == "four_micro_batches") {
    return request.message().micro_batches() >= 4 ? "average_micro_batches" : "";
  }
  int states = 0;
  for (const GraphProto& graph : graphs.graphs()) states = std::max(states, graph.states_size());
  if (fault == "many_states") return states > 200 ? "reduce_wrongly" : "";
  const auto has_name = [&](const FaultyPass& pass) { return pass.name == fault; };
  const std::vector<FaultyPass>& passes = FaultyPasses();
  return std::any_of(passes.begin(), passes.end(), has_name) ? fault : "";
}

// Ends the process, or returns if the fault is another one.
void EndProcess(const std::string& fault) {
  if (fault == "segmentation_fault") {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would print a report
    std::raise(SIGSEGV);
  }
  if (fault == "abort") std::abort();
  if (fault == "exit") std::exit(0);
}

// Whether a fault changes the Plan by what is none of the request.
bool ChangesPlan(const std::string& fault) {
  const char* const rank = std::getenv("RANK");
  if (fault == "reads_rank") return rank != nullptr && std::atoi(rank) > 0;
  if (fault == "reads_clock") return std::time(nullptr) % 2 == 1;
  return false;
}

class Faulty : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    const std::string& fault = request.Text("fault");
    EndProcess(fault);
    if (fault == "throw") throw std::runtime_error("the strategy is\nbroken");
    if (fault == "refuse") return absl::InvalidArgumentError("no such thing");
    if (fault == "any_limit" && request.memory_limit_bytes() > 0) {
      return absl::ResourceExhaustedError("the limit is too low; 17 are enough");
    }
    if (fault == "no_limit" && request.memory_limit_bytes() > 0) {
      return absl::ResourceExhaustedError("too little memory");
    }
    if (fault == "high_limit" && request.memory_limit_bytes() == 1) {
      return absl::ResourceExhaustedError("the smallest limit is 123456789");
    }
    if (fault == "infeasible") return absl::ResourceExhaustedError("needs at least 17 B");
    if (fault == "hang" || fault == "hang_with_plan") return Hang(fault == "hang_with_plan", host);
    for (int i = 0; fault == "logs" && i < 1000; ++i) host.Log("line " + std::to_string(i));
    if (fault == "late_thread") {
      std::thread([&host] {
        while (true) host.Graphs().status().IgnoreError();
      }).detach();
    }
    absl::StatusOr<Plan> plan = DataParallel(host);
    absl::StatusOr<RunGraphs> graphs = host.Graphs();
    if (!plan.ok()) return plan;
    Stage& stage = *plan->mutable_stages(0);
    if (fault == "no_mesh") stage.clear_mesh();
    if (fault == "unknown_path") stage.mutable_store(0)->set_path("no.such.path");
    if (fault == "random") {
      const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
      const double bytes = static_cast<double>(now % 1'000'000'000 + 1);
      stage.add_pass()->mutable_bucket_gradients()->set_cap_mib(bytes / (1 << 20));
    }
    if (ChangesPlan(fault)) stage.add_pass()->mutable_bucket_gradients();
    if (const std::string name = PassOf(fault, request, *graphs); !name.empty()) {
      PassChoice::PluginPass& pass = *stage.add_pass()->mutable_plugin();
      pass.set_name("faulty");
      pass.set_version("1.0");
      pass.set_pass(name);
    }
    return plan;
  }

  absl::StatusOr<StepCost> Estimate(const Request& request, const Plan& plan, Host& host) override {
    const std::string& fault = request.Text("fault");
    if (fault == "abort_in_estimate") std::abort();
    Plan without = plan;
    // The host does not lower a Plan with a plugin's pass.
    if (!plan.stages(0).pass().empty() && plan.stages(0).pass(0).has_plugin()) {
      without.mutable_stages(0)->clear_pass();
    }
    absl::StatusOr<StepCost> cost = host.Lower(without);
    if (!cost.ok()) return cost;
    ASSIGN_OR_RETURN(const ModelInfo model, host.Model());
    EstimateWrongly(fault, model, *cost);
    return cost;
  }

  absl::StatusOr<ProgramProto> RunPass(const PassRequest& request, Host& host) override {
    ProgramProto program = request.program();
    for (const FaultyPass& pass : FaultyPasses()) {
      if (pass.name == request.name()) pass.run(program);
    }
    return program;
  }

 private:
  static void EstimateWrongly(const std::string& fault, const ModelInfo& model, StepCost& cost) {
    int64_t parameters = 0;
    for (const ParameterInfo& parameter : model.parameters) parameters += parameter.elements;
    const bool halves =
        fault == "fewer_bytes" || (fault == "fewer_bytes_if_large" && parameters > 100'000);
    for (StepCost::Collective& collective : *cost.mutable_collectives()) {
      if (halves) collective.set_bytes(collective.bytes() / 2);
      if (fault == "other_axes") collective.set_mesh_axes(0, "model");
    }
    if (fault == "fewer_calls" && cost.collectives_size() > 0) {
      cost.mutable_collectives(0)->set_calls(cost.collectives(0).calls() - 1);
    }
    if (fault == "less_memory") cost.set_peak_bytes(cost.peak_bytes() - 64);
    if (fault == "no_time") cost.set_step_seconds(0);
    if (fault == "nan_time") cost.set_step_seconds(std::numeric_limits<double>::quiet_NaN());
    if (fault == "nan_time_of_a_part") {
      cost.mutable_times(0)->set_seconds(std::numeric_limits<double>::quiet_NaN());
    }
    if (fault == "too_fast") cost.set_step_seconds(cost.computation_seconds() / 2);
    if (fault == "wrong_categories" && cost.memory_size() > 1) {
      std::swap(*cost.mutable_memory(0)->mutable_category(),
                *cost.mutable_memory(1)->mutable_category());
    }
  }

  static absl::StatusOr<Plan> DataParallel(Host& host) {
    ASSIGN_OR_RETURN(const ModelInfo model, host.Model());
    PlanBuilder plan;
    plan.Axis("data");
    plan.SplitBatch(model);
    return plan.Build();
  }

  // Never returns, even if the host cancels; reports the same again and again.
  static absl::StatusOr<Plan> Hang(bool report, Host& host) {
    absl::StatusOr<Plan> plan = DataParallel(host);
    Progress progress;
    if (plan.ok() && report) *progress.mutable_best() = *plan;
    progress.set_fraction(0.5);
    progress.set_message("half done");
    while (true) {
      host.Report(progress);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
};

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const FaultyPass& pass : FaultyPasses()) names.push_back(pass.name);
  return names;
}

}  // namespace

TESSERA_STRATEGY(Faulty, {
                             .name = "faulty",
                             .version = "1.0",
                             .summary = "data parallel, with a fault",
                             .options = {{"fault", "text", "none", "what is wrong"},
                                         {"size", "bytes", "1KiB", "an option of bytes"},
                                         {"choice", "a|b", "a", "an option of choices"},
                                         {"count", "int", "3", "an option of a whole number"},
                                         {"share", "number", "0.5", "an option of a number"},
                                         {"on", "bool", "no", "an option of yes or no"}},
                             .passes = PassNames(),
                         });

}  // namespace tessera::strategy
