// The services in a planning context at another batch than the run's, and a strategy that decides
// the batch with them.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cost/cluster.h"
#include "core/cost/prices/measured_prices.h"
#include "core/kernels/cpu/backend.h"
#include "core/train/programs.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plan_with.h"

namespace tessera {
namespace {

constexpr int64_t kBatch = 8, kOther = 32;
constexpr int kRanks = 2;

// Data parallel, for a batch of kOther rows.
Plan PlanForOther() {
  Plan plan;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(format: 2
           batch: 32
           stages {
             mesh { name: "data" }
             store { path: "tokens|targets" layout: "data: S(0)" }
             parts { graph: "train" micro_batches: 2 }
           })pb",
      &plan));
  return plan;
}

class OtherBatchTest : public testing::Test {
 protected:
  OtherBatchTest() : backend_(MakeCpuBackend(1)), prices_(std::make_shared<MeasuredPrices>()) {
    GptConfig sizes;
    sizes.set_layers(2);
    sizes.set_heads(2);
    sizes.set_channels(64);
    sizes.set_vocabulary(300);
    sizes.set_context(32);
    auto model = CreateGpt(sizes);
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    const auto cluster = ReadCluster("docs/clusters/ethernet_1g.textproto");
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *cluster;
    run_ = ContextAt(kBatch);
    options_.record = [this](int64_t batch, int64_t sequence) { return Record(batch, sequence); };
    request_.set_ranks(kRanks);
    request_.set_batch(kBatch);
    request_.set_micro_batches(1);
  }

  // Records the Graphs; 0: those of the run.
  absl::StatusOr<std::vector<Graph>> Record(int64_t batch, int64_t sequence) const {
    RunConfig config;
    config.set_batch(batch == 0 ? kBatch : batch);
    config.set_sequence(sequence == 0 ? 32 : sequence);
    config.mutable_optimizer()->set_kind("adamw");
    return RecordRun(*model_, config, RunGraphs::kAll);
  }

  std::shared_ptr<const PlanningContext> ContextAt(int64_t batch) const {
    auto graphs = Record(batch, /*sequence=*/0);
    EXPECT_TRUE(graphs.ok()) << graphs.status();
    return std::make_shared<const PlanningContext>(
        *std::move(graphs), PlanningFor{.catalogue = backend_.get(),
                                        .ranks = kRanks,
                                        .cluster = cluster_,
                                        .site = SiteOnCluster(cluster_, kRanks),
                                        .prices = prices_});
  }

  const std::unique_ptr<Backend> backend_;
  const std::shared_ptr<const MeasuredPrices> prices_;  // every context shares them
  std::unique_ptr<Model> model_;
  Cluster cluster_;
  std::shared_ptr<const PlanningContext> run_;
  PluginCallOptions options_;
  strategy::PlanRequest request_;
};

// A result that a service has put, or its message.
struct Answer {
  int32_t code = TESSERA_OK;
  std::string bytes;
};

TesseraSink SinkOf(Answer& answer) {
  return {.struct_size = sizeof(TesseraSink),
          .state = &answer,
          .put = [](void* state, const char* data, size_t size) {
            static_cast<Answer*>(state)->bytes.assign(data, size);
          }};
}

template <typename Request>
Answer Ask(const TesseraHost* host, TesseraService service, TesseraContext* context,
           const Request& request) {
  Answer answer;
  const TesseraSink sink = SinkOf(answer);
  const std::string bytes = request.SerializeAsString();
  answer.code = service(host, context, bytes.data(), bytes.size(), &sink);
  return answer;
}

TesseraContext* Open(const TesseraHost* host, int64_t batch) {
  strategy::OpenContext request;
  request.set_batch(batch);
  const std::string bytes = request.SerializeAsString();
  Answer answer;
  const TesseraSink sink = SinkOf(answer);
  TesseraContext* opened = nullptr;
  host->open_context(host, bytes.data(), bytes.size(), &opened, &sink);
  return opened;
}

int32_t Put(const TesseraSink* sink, const std::string& bytes, int32_t code) {
  sink->put(sink->state, bytes.data(), bytes.size());
  return code;
}

// A call of a plugin runs in a copy of this process, so that it has a copy of these: a context at
// the other batch that no plugin has opened, and the prices that all contexts share.
std::shared_ptr<const PlanningContext>* const kDirect =
    new std::shared_ptr<const PlanningContext>();
std::shared_ptr<const MeasuredPrices>* const kShared = new std::shared_ptr<const MeasuredPrices>();

// Compares a service in the opened context with its result of the direct context, and with its
// answer in the run's. Returns what differs; "" if only the latter does, as it should.
template <typename Request, typename Result>
std::string Compare(const char* name, const TesseraHost* host, TesseraService service,
                    TesseraContext* context, const Request& request,
                    const absl::StatusOr<Result>& expected) {
  if (!expected.ok()) return std::string(expected.status().message());
  const Answer answer = Ask(host, service, context, request);
  if (answer.code != TESSERA_OK) return std::string(name) + ": " + answer.bytes;
  if (answer.bytes != expected->SerializeAsString()) {
    return std::string(name) + ": another result than in a context at this batch";
  }
  const Answer of_run = Ask(host, service, nullptr, request);
  return of_run.bytes == answer.bytes ? std::string(name) + ": the same as at the run's batch" : "";
}

int32_t CompareServices(const TesseraStrategy*, const TesseraHost* host, const char*, size_t,
                        const TesseraSink* sink) {
  TesseraContext* const context = Open(host, kOther);
  if (context == nullptr) return Put(sink, "no context", TESSERA_INTERNAL);
  const PlanningContext& direct = **kDirect;
  strategy::DescribeOperators describe;
  describe.set_graph("train");
  strategy::PriceOperators price;
  price.set_graph("train");
  price.add_mesh()->set_name("data");
  price.add_uses()->set_path("blocks.1.mlp.fc.matmul");
  price.mutable_uses(0)->set_signature("data: S(0), B -> S(0)");
  strategy::LowerPlans lower;
  *lower.add_plans() = PlanForOther();
  lower.set_sections(true);
  if (!direct.Lower(lower).plans(0).error().empty()) return TESSERA_INTERNAL;
  const std::string faults[] = {
      Compare("graphs", host, host->graphs, context, strategy::DescribeGraphs(), direct.Graphs({})),
      Compare("describe_operators", host, host->describe_operators, context, describe,
              direct.Describe(describe)),
      Compare("price_operators", host, host->price_operators, context, price, direct.Price(price)),
      Compare("complete_plan", host, host->complete_plan, context, PlanForOther(),
              direct.Complete(PlanForOther())),
      Compare("lower_plans", host, host->lower_plans, context, lower,
              absl::StatusOr<strategy::LoweredPlans>(direct.Lower(lower)))};
  for (const std::string& fault : faults) {
    if (!fault.empty()) return Put(sink, fault, TESSERA_INTERNAL);
  }
  host->close_context(host, context);
  return Put(sink, PlanForOther().SerializeAsString(), TESSERA_OK);
}

TEST_F(OtherBatchTest, ServicesInAnOpenedContextAreThoseOfItsBatch) {
  static constexpr TesseraStrategy kTable = {
      .name = "compares", .version = "1.0", .make_plan = CompareServices};
  const auto plugin = Plugin::FromTable(&kTable, "a table");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  *kDirect = ContextAt(kOther);
  request_.add_open(strategy::PlanRequest::BATCH);
  const auto made = PlanWith(*plugin, request_, run_, options_);
  // Its Plan has 2 micro-batches, which are not open.
  EXPECT_EQ(made.status().message(),
            "strategy compares: its Plan has 2 micro-batches, but the run has 1: set "
            "--micro_batches=2");
  request_.add_open(strategy::PlanRequest::MICRO_BATCHES);
  const auto open = PlanWith(*plugin, request_, run_, options_);
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_EQ(open->plan.batch(), kOther);
}

TEST_F(OtherBatchTest, APlanIsForItsBatchOnly) {
  const auto completed = ContextAt(kOther)->Complete(PlanForOther());
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(completed->batch(), kOther);
  for (const Plan& plan : {PlanForOther(), *completed}) {
    EXPECT_EQ(run_->Complete(plan).status().message(),
              "the Plan is for a batch of 32 rows, but input 'tokens' of graph 'train' has 8");
    strategy::LowerPlans request;
    *request.add_plans() = plan;
    EXPECT_EQ(run_->Lower(request).plans(0).error(),
              "the Plan is for a batch of 32 rows, but input 'tokens' of graph 'train' has 8");
  }
}

// Opens contexts and closes them, and counts those that exist by the prices that they share.
int32_t OpenAndClose(const TesseraStrategy*, const TesseraHost* host, const char*, size_t,
                     const TesseraSink* sink) {
  const int64_t before = kShared->use_count();
  TesseraContext* const first = Open(host, 16);
  TesseraContext* const second = Open(host, kOther);
  if (first == nullptr || second == nullptr) return Put(sink, "no context", TESSERA_INTERNAL);
  const auto is_open = [host](TesseraContext* context) {
    return Ask(host, host->graphs, context, strategy::DescribeGraphs()).code == TESSERA_OK;
  };
  std::string fault;
  if (kShared->use_count() != before + 2) fault = "two open contexts are not two";
  host->close_context(host, first);
  if (kShared->use_count() != before + 1) fault = "the first context is not freed";
  if (is_open(first) || !is_open(second)) fault = "the second context is closed, not the first";
  host->close_context(host, second);
  host->close_context(host, second);
  if (kShared->use_count() != before) fault = "the second context is not freed";
  if (is_open(second)) fault = "the second context is still open";
  if (!is_open(nullptr)) fault = "the run's context is closed";
  if (Open(host, -1) != nullptr) fault = "a context of -1 rows is open";
  if (!fault.empty()) return Put(sink, fault, TESSERA_INTERNAL);
  Plan plan = PlanForOther();
  plan.mutable_stages(0)->clear_parts();
  return Put(sink, plan.SerializeAsString(), TESSERA_OK);
}

TEST_F(OtherBatchTest, ClosingAContextFreesIt) {
  static constexpr TesseraStrategy kTable = {
      .name = "closes", .version = "1.0", .make_plan = OpenAndClose};
  const auto plugin = Plugin::FromTable(&kTable, "a table");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  *kShared = prices_;
  request_.add_open(strategy::PlanRequest::BATCH);
  const auto made = PlanWith(*plugin, request_, run_, options_);
  ASSERT_TRUE(made.ok()) << made.status();
  // A batch that is not open may be stated, but is not the Plan's to change.
  request_.clear_open();
  EXPECT_EQ(PlanWith(*plugin, request_, run_, options_).status().message(),
            "strategy closes: its Plan is for a batch of 32 rows, but the run has 8: set "
            "--batch=32");
  request_.set_batch(kOther);
  EXPECT_TRUE(PlanWith(*plugin, request_, run_, options_).ok());
}

// Returns the bytes of a rank with the data parallel Plan of a batch.
int64_t PeakAt(const PlanningContext& context, Plan plan, int64_t batch) {
  plan.set_batch(batch);
  strategy::LowerPlans request;
  *request.add_plans() = plan;
  const strategy::LoweredPlans lowered = context.Lower(request);
  EXPECT_EQ(lowered.plans(0).error(), "");
  return lowered.plans(0).cost().peak_bytes();
}

TEST_F(OtherBatchTest, AStrategyDecidesTheLargestBatchThatFits) {
  const auto plugin = Plugin::Load("strategies/host/testing/fills_memory.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const auto values = ReadOptions(*plugin, {});
  ASSERT_TRUE(values.ok()) << values.status();
  SetOptions(*values, request_);
  request_.add_open(strategy::PlanRequest::BATCH);
  Plan plan = PlanForOther();
  plan.mutable_stages(0)->clear_parts();
  const int64_t fits = PeakAt(*ContextAt(kOther), plan, kOther);
  EXPECT_GT(PeakAt(*ContextAt(2 * kOther), plan, 2 * kOther), fits);
  for (const auto& [limit, batch] :
       {std::pair(fits, kOther), {fits - 1, kOther / 2}, {int64_t{1}, kBatch}, {int64_t{0}, 64L}}) {
    request_.set_memory_limit_bytes(limit);
    const auto made = PlanWith(*plugin, request_, run_, options_);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->plan.batch(), batch) << limit;
  }
  request_.clear_open();
  const auto closed = PlanWith(*plugin, request_, run_, options_);
  ASSERT_TRUE(closed.ok()) << closed.status();
  EXPECT_EQ(closed->plan.batch(), 0);
}

}  // namespace
}  // namespace tessera
