// Checks faults of a plugin while it plans, and the results of the host's services.
#include "strategies/host/plan_with.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/compile/compile.h"
#include "core/cost/cluster.h"
#include "core/graph/graph.h"
#include "core/kernels/cpu/backend.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plugin_passes.h"
#include "strategies/host/testing/no_new_files.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Records y = x w with 8 rows.
std::vector<Graph> SmallGraphs() {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {8, 4}}, /*batch_dim=*/0);
  const Tensor w = graph.Parameter("w", {4, 6}, Initializer::Constant(1));
  graph.SetOutput("y", MatMul(x, w));
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return graphs;
}

class PlanWithTest : public testing::Test {
 protected:
  PlanWithTest() : backend_(MakeCpuBackend(1)) {
    const Cluster cluster = ClusterOfMachine("test", MachineRates());
    context_ = std::make_shared<const PlanningContext>(
        SmallGraphs(), PlanningFor{backend_.get(), 2, cluster, SiteOnCluster(cluster, 2)});
    options_.limit = std::chrono::seconds(30);
    options_.grace = std::chrono::milliseconds(50);
  }

  absl::StatusOr<StrategyPlan> Plan(const std::string& fault) {
    const auto plugin = Plugin::Load("strategies/conformance/testing/faulty.so");
    EXPECT_TRUE(plugin.ok()) << plugin.status();
    strategy::PlanRequest request;
    request.set_ranks(2);
    const auto values = ReadOptions(*plugin, {"fault=" + fault});
    EXPECT_TRUE(values.ok()) << values.status();
    SetOptions(*values, request);
    return PlanWith(*plugin, request, context_, options_);
  }

  std::string Error(const std::string& fault) {
    return std::string(Plan(fault).status().message());
  }

  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const PlanningContext> context_;
  PluginCallOptions options_;
};

TEST_F(PlanWithTest, ReturnsThePlan) {
  const auto made = Plan("none");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->plan.stages(0).store(0).path(), "x");
  EXPECT_EQ(made->plan.stages(0).store(0).layout(), "data: S(0)");
  EXPECT_TRUE(made->notes.empty());
}

TEST_F(PlanWithTest, ErrorsNameTheStrategy) {
  EXPECT_EQ(Error("throw"), "strategy faulty: threw an exception: the strategy is broken");
  EXPECT_EQ(Error("refuse"), "strategy faulty: no such thing");
  EXPECT_EQ(Error("infeasible"), "strategy faulty: needs at least 17 B");
  EXPECT_THAT(Error("no_mesh"), HasSubstr("strategy faulty: its Plan cannot be run: the Plan has "
                                          "no mesh"));
}

TEST_F(PlanWithTest, APluginThatTakesTooLongIsEnded) {
  options_.limit = std::chrono::milliseconds(100);
  EXPECT_EQ(Error("hang"),
            "strategy faulty: planning took longer than 100 ms, and it has reported no Plan so "
            "far; allow it more time");
  options_.limit = std::chrono::seconds(2);  // the Plan has to arrive before
  const auto made = Plan("hang_with_plan");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->plan.stages(0).store_size(), 1);
  EXPECT_THAT(made->notes, ElementsAre(HasSubstr("its best Plan so far is used")));
}

TEST_F(PlanWithTest, TheUserSeesItsProgressAndMayStopIt) {
  std::vector<std::string> lines;
  options_.progress = [&](double, const std::string& line) { lines.push_back(line); };
  options_.stop = [&] { return !lines.empty(); };
  EXPECT_EQ(Error("hang"), "strategy faulty: stopped while it planned");
  EXPECT_THAT(lines, ElementsAre("half done"));
  // It is shown later, also if nothing new is reported.
  lines.clear();
  options_.between_progress = std::chrono::milliseconds(300);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Error("hang"), "strategy faulty: stopped while it planned");
  EXPECT_THAT(lines, ElementsAre("half done"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, options_.between_progress);
  // A report that says the same again is not shown again.
  lines.clear();
  options_.between_progress = std::chrono::milliseconds(0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  options_.stop = [&] { return !lines.empty() && std::chrono::steady_clock::now() > end; };
  EXPECT_EQ(Error("hang"), "strategy faulty: stopped while it planned");
  EXPECT_THAT(lines, ElementsAre("half done"));
  // The progress came with a Plan.
  lines.clear();
  const auto made = Plan("hang_with_plan");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->plan.stages(0).store_size(), 1);
  EXPECT_THAT(made->notes, ElementsAre("strategy faulty: stopped while it planned: its best Plan "
                                       "so far is used"));
}

// Regression: the error was that of the system, ResourceExhausted, which says that no Plan fits in
// memory.
TEST_F(PlanWithTest, AnErrorNamesTheCallWhoseProcessCannotBeStarted) {
  const auto plugin = Plugin::Load("strategies/conformance/testing/faulty.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  absl::Status status;
  {
    const NoNewFiles no_new_files;
    status = PlanWith(*plugin, {}, context_, options_).status();
  }
  EXPECT_EQ(status,
            absl::UnavailableError("strategy faulty: `make_plan`: cannot start a process: pipe: "
                                   "Too many open files"));
}

// Returns the table of a plugin that has this `make_plan`.
TesseraStrategy TableOf(const char* name, TesseraStrategyFunction plan) {
  TesseraStrategy table = {};
  table.struct_size = sizeof(TesseraStrategy);
  table.name = name;
  table.version = table.summary = "";
  table.make_plan = plan;
  return table;
}

// A plugin that returns the code and bytes of `result`.
struct Canned {
  int32_t code = TESSERA_OK;
  std::string bytes;
};
int32_t PutCanned(const TesseraStrategy* self, const TesseraHost*, const char*, size_t,
                  const TesseraSink* sink) {
  const Canned& canned = *static_cast<Canned*>(self->state);
  sink->put(sink->state, canned.bytes.data(), canned.bytes.size());
  return canned.code;
}

TEST_F(PlanWithTest, ResultsThatAreNoPlans) {
  Canned canned;
  TesseraStrategy table = TableOf("canned", PutCanned);
  table.state = &canned;
  const auto plugin = Plugin::FromTable(&table, "canned.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const auto error = [&](int32_t code, const std::string& bytes) {
    canned = {code, bytes};
    return std::string(PlanWith(*plugin, {}, context_, options_).status().message());
  };
  EXPECT_EQ(error(TESSERA_OK, "nonsense"), "strategy canned: returned 8 bytes that are no Plan");
  class Plan plan;
  plan.add_stages()->add_mesh()->set_name("data");
  const std::string bytes = plan.SerializeAsString();
  EXPECT_EQ(error(TESSERA_OK, bytes), "");
  EXPECT_THAT(error(TESSERA_OK, bytes.substr(0, bytes.size() - 1)), HasSubstr("are no Plan"));
  EXPECT_EQ(error(-7, ""), "strategy canned: failed with code -7 and no message");
  EXPECT_EQ(error(TESSERA_INVALID, "two\nlines\x01"), "strategy canned: two lines ");
  PlanPart& part = *plan.mutable_stages(0)->add_parts();
  part.set_graph("train");
  part.set_micro_batches(1);
  EXPECT_EQ(error(TESSERA_OK, plan.SerializeAsString()), "");
  part.set_micro_batches(4);
  EXPECT_EQ(error(TESSERA_OK, plan.SerializeAsString()),
            "strategy canned: its Plan has 4 micro-batches, but the run has 1: set "
            "--micro_batches=4");
  plan.add_stages();
  EXPECT_THAT(error(TESSERA_OK, plan.SerializeAsString()), HasSubstr("has 2 stages"));
}

// Logs the id of its process, and does not stop.
int32_t LogProcess(const TesseraStrategy*, const TesseraHost* host, const char*, size_t,
                   const TesseraSink*) {
  const std::string id = std::to_string(getpid());
  host->log(host, id.data(), id.size());
  while (true) sleep(1);
}

// Regression: what it logged after the call was passed to a caller that no longer existed.
TEST_F(PlanWithTest, APluginThatDoesNotStopIsEnded) {
  const TesseraStrategy table = TableOf("endless", LogProcess);
  const auto plugin = Plugin::FromTable(&table, "endless.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  std::vector<std::string> lines;
  options_.log = [&](const std::string& line) { lines.push_back(line); };
  options_.stop = [&] { return !lines.empty(); };
  EXPECT_TRUE(absl::IsCancelled(PlanWith(*plugin, {}, context_, options_).status()));
  ASSERT_THAT(lines, ElementsAre(StartsWith("strategy endless: ")));
  const pid_t process = std::stoi(lines[0].substr(lines[0].rfind(' ')));
  EXPECT_NE(process, getpid());
  EXPECT_EQ(kill(process, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

// Regression: each of these ended the process without a word.
TEST_F(PlanWithTest, AFunctionThatEndsItsProcessIsAnErrorThatNamesIt) {
  EXPECT_EQ(Error("segmentation_fault"),
            "strategy faulty: `make_plan` ended its process: signal 11 (Segmentation fault)");
  EXPECT_EQ(Error("abort"), "strategy faulty: `make_plan` ended its process: signal 6 (Aborted)");
  EXPECT_EQ(Error("exit"), "strategy faulty: `make_plan` ended its process: exit code 0");
  EXPECT_EQ(Error("late_thread"), "");
  const auto plugin = Plugin::Load("strategies/conformance/testing/faulty.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  LoadedPasses passes(backend_.get(), context_, options_);
  passes.Add(*plugin);
  PassChoice::PluginPass pass;
  pass.set_name(plugin->name());
  pass.set_version(plugin->version());
  pass.set_pass("abort_in_pass");
  EXPECT_EQ(passes.Run(pass, Program()).status().message(),
            "strategy faulty: `run_pass` of 'abort_in_pass' ended its process: signal 6 (Aborted)");
}

// Regression: a second line within a second was not shown.
TEST_F(PlanWithTest, NoLineIsLost) {
  std::vector<std::string> lines;
  options_.log = [&](const std::string& line) { lines.push_back(line); };
  ASSERT_TRUE(Plan("logs").ok());
  ASSERT_EQ(lines.size(), 1000u);
  EXPECT_EQ(lines.front(), "strategy faulty: line 0");
  EXPECT_EQ(lines.back(), "strategy faulty: line 999");
}

int32_t LogLines(const TesseraStrategy*, const TesseraHost* host, const char*, size_t,
                 const TesseraSink*) {
  for (const absl::string_view text : {"one\n\ntwo\n", "three"}) {
    host->log(host, text.data(), text.size());
  }
  return TESSERA_INTERNAL;
}

// Regression: a line break at the end was shown as an empty line.
TEST_F(PlanWithTest, LinesThatAreLogged) {
  const TesseraStrategy table = TableOf("logs", LogLines);
  const auto plugin = Plugin::FromTable(&table, "logs.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  std::vector<std::string> lines;
  options_.log = [&](const std::string& line) { lines.push_back(line); };
  EXPECT_FALSE(PlanWith(*plugin, {}, context_, options_).ok());
  EXPECT_THAT(lines, ElementsAre("strategy logs: one", "strategy logs: ", "strategy logs: two",
                                 "strategy logs: three"));
}

TEST_F(PlanWithTest, TheContextAnswers) {
  strategy::DescribeOperators describe;
  describe.set_graph("train");
  const auto operators = context_->Describe(describe);
  ASSERT_TRUE(operators.ok()) << operators.status();
  ASSERT_EQ(operators->operators_size(), 1);
  EXPECT_EQ(operators->operators(0).path(), "matmul");
  EXPECT_EQ(operators->operators(0).flops(), 2.0 * 8 * 4 * 6);
  EXPECT_THAT(operators->operators(0).signatures(), testing::Contains("S(0), B -> S(0)"));
  describe.add_paths("matmull");
  EXPECT_THAT(context_->Describe(describe).status().message(), HasSubstr("no operator 'matmull'"));
  describe.set_graph("trane");
  EXPECT_THAT(context_->Describe(describe).status().message(), HasSubstr("did you mean 'train'"));

  strategy::PriceOperators price;
  price.set_graph("train");
  price.add_mesh()->set_name("data");
  price.add_uses()->set_path("matmul");
  price.add_uses()->set_path("matmul");
  price.mutable_uses(1)->set_signature("data: S(0), B -> S(0)");
  const auto prices = context_->Price(price);
  ASSERT_TRUE(prices.ok()) << prices.status();
  EXPECT_LT(prices->seconds(1), prices->seconds(0));
  price.mutable_uses(1)->set_signature("data: S(0) -> S(0)");
  EXPECT_THAT(context_->Price(price).status().message(), HasSubstr("has 2 inputs and 1 outputs"));
  // Regression: the size was written past the end of the shape.
  price.mutable_uses(1)->set_signature("data: S(7), B -> S(0)");
  EXPECT_THAT(context_->Price(price).status().message(), HasSubstr("splits dimension 7 of f32["));

  strategy::PriceCollectives collectives;
  collectives.add_mesh()->set_name("data");
  for (const int64_t elements : {1000, 1000000}) {
    auto& call = *collectives.add_calls();
    call.set_elements(elements);
    call.add_mesh_axes("data");
  }
  const auto seconds = context_->Price(collectives);
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_GT(seconds->seconds(0), 0);
  EXPECT_GT(seconds->seconds(1), seconds->seconds(0));
  collectives.mutable_calls(0)->set_mesh_axes(0, "model");
  EXPECT_FALSE(context_->Price(collectives).ok());

  strategy::PriceRedistributions changes;
  changes.add_mesh()->set_name("data");
  auto& change = *changes.add_changes();
  change.mutable_type()->add_shape(1000);
  change.add_from("data: P");
  change.add_to("data: B");
  const double complete = context_->Price(changes)->seconds(0);
  EXPECT_GT(complete, 0);
  change.add_from("data: B");
  change.add_to("data: S(0)");
  const auto table = context_->Price(changes);  // the rows P and B
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->seconds_size(), 4);
  EXPECT_EQ(table->seconds(0), complete);
  EXPECT_GT(table->seconds(1), 0);
  EXPECT_EQ(table->seconds(2), 0);
  EXPECT_EQ(table->seconds(3), 0);
  change.clear_from();  // B
  EXPECT_EQ(context_->Price(changes)->seconds_size(), 2);

  // Tables of other types, in the order of the request.
  for (const int64_t rows : {50, 100000, 1000}) {
    auto& more = *changes.add_changes();
    more.mutable_type()->add_shape(rows);
    more.add_from("data: P");
  }
  const auto all = context_->Price(changes);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->seconds_size(), 5);
  EXPECT_LT(all->seconds(2), complete);
  EXPECT_GT(all->seconds(3), complete);
  EXPECT_EQ(all->seconds(4), complete);
  for (int i = 0; i < 5000; ++i) changes.mutable_changes(0)->add_from("data: B");
  for (int i = 0; i < 5000; ++i) changes.mutable_changes(0)->add_to("data: B");
  EXPECT_TRUE(absl::IsInvalidArgument(context_->Price(changes).status()));
}

TEST_F(PlanWithTest, CandidatesAreLowered) {
  strategy::LowerPlans request;
  class Plan& good = *request.add_plans();
  good.add_stages()->add_mesh()->set_name("data");
  StoreChoice& store = *good.mutable_stages(0)->add_store();
  store.set_path("x");
  store.set_layout("data: S(0)");
  *request.add_plans() = good;
  request.mutable_plans(1)->mutable_stages(0)->mutable_store(0)->set_path("z");
  const strategy::LoweredPlans lowered = context_->Lower(request);
  ASSERT_EQ(lowered.plans_size(), 2);
  EXPECT_EQ(lowered.plans(0).error(), "");
  EXPECT_GE(lowered.plans(0).cost().peak_bytes(), 4 * (4 * 4 + 4 * 6 + 4 * 6));
  EXPECT_GT(lowered.plans(0).cost().step_seconds(), 0);
  EXPECT_THAT(lowered.plans(1).error(), HasSubstr("'z'"));
}

// Regression: candidates were compiled by a path of their own, which accepted Plans that no
// run accepts, and named another fault.
TEST_F(PlanWithTest, ACandidateHasTheErrorOfARun) {
  const auto add_plan = [](strategy::LowerPlans& request) -> Stage& {
    return *request.add_plans()->add_stages();
  };
  strategy::LowerPlans request;
  Stage& two_faults = add_plan(request);  // no mesh, and a block that does not exist
  two_faults.add_parts()->set_graph("train");
  two_faults.mutable_parts(0)->add_recompute("nowhere");
  Stage& of_plugin = add_plan(request);
  of_plugin.add_mesh()->set_name("data");
  of_plugin.add_pass()->mutable_plugin()->set_name("test");
  of_plugin.mutable_pass(0)->mutable_plugin()->set_pass("edit");
  add_plan(request).add_mesh()->set_name("data");
  const strategy::LoweredPlans lowered = context_->Lower(request);
  for (int i = 0; i < request.plans_size(); ++i) {
    const absl::Status run = CompileRun(SmallGraphs(), request.plans(i), *backend_, 2).status();
    EXPECT_EQ(lowered.plans(i).error(), run.message());
    EXPECT_EQ(run.ok(), i == 2) << run;
  }
}

// Regression: a pass of a plugin had no time limit.
TEST_F(PlanWithTest, APassThatDoesNotEndIsEnded) {
  const auto plugin = Plugin::Load("strategies/conformance/testing/faulty.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const auto run = [&](const std::string& name, std::chrono::milliseconds limit) {
    options_.limit = limit;
    LoadedPasses passes(backend_.get(), context_, options_);
    passes.Add(*plugin);
    PassChoice::PluginPass pass;
    pass.set_name(plugin->name());
    pass.set_version(plugin->version());
    pass.set_pass(name);
    return passes.Run(pass, Program()).status();
  };
  EXPECT_EQ(run("endless", std::chrono::milliseconds(50)),
            absl::DeadlineExceededError("pass 'endless' of strategy faulty: took too long"));
  EXPECT_EQ(run("reorder_on_odd_ranks", std::chrono::seconds(30)), absl::OkStatus());
}

}  // namespace
}  // namespace tessera
