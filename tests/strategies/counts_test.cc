// Checks the number and sizes of collectives of a training step under ddp, fsdp and tensor.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/compile/compile.h"
#include "core/cost/cluster.h"
#include "core/graph/graph.h"
#include "core/kernels/cpu/backend.h"
#include "core/model/language_model.h"
#include "core/ops/ops.h"
#include "core/plan/run_settings.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plan_with.h"

namespace tessera {
namespace {

constexpr int kBlocks = 6;
constexpr int kUnits = kBlocks + 1;  // the blocks and the root unit: embeddings and the last norm
constexpr int kRanks = 4;

// The number of collectives, and the total bytes of their full buffers.
struct Count {
  int64_t calls = 0, bytes = 0;
};

struct Case {
  std::string strategy;
  std::vector<std::string> options;
  int micro_batches = 1;
  int ranks_per_host = 0;      // all
  int64_t least_elements = 2;  // collectives of fewer are not counted: losses, counts and norms
};

std::unique_ptr<Model> MakeGpt() {
  GptConfig sizes;
  sizes.set_layers(kBlocks);
  sizes.set_heads(2);
  sizes.set_channels(8);
  sizes.set_vocabulary(61);
  sizes.set_context(8);
  auto created = CreateGpt(sizes);
  EXPECT_TRUE(created.ok()) << created.status();
  return *std::move(created);
}

// Reads one table twice, so that its gradient is the sum of those of two embeddings. The head has a
// weight of its own.
class TwoEmbeddingsModel final : public LanguageModel {
 public:
  static constexpr int64_t kVocabulary = 61, kChannels = 8;

  int64_t vocabulary() const override { return kVocabulary; }
  int64_t max_sequence() const override { return 8; }

  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t sequence,
                          bool /*training*/) const override {
    const TensorType type = {DType::kI32, {batch, sequence}};
    const Tensor tokens = graph.Input("tokens", type, 0);
    const Tensor targets = graph.Input("targets", type, 0);
    const Shape shape = {kVocabulary, kChannels};
    const Tensor table = graph.Parameter("table", shape, Initializer::Normal(0, 1));
    const Tensor head = graph.Parameter("head", shape, Initializer::Normal(0, 1));
    const Tensor x = Exp(Embedding(table, tokens));
    return LinearCrossEntropy(Add(x, Embedding(table, tokens)), head, targets);
  }

  Tensor RecordLogits(Graph& graph, int64_t /*batch*/, int64_t /*sequence*/) const override {
    graph.Fail(absl::UnimplementedError("this model is only trained"));
    return {};
  }
  Tensor RecordNextToken(Graph& graph, int64_t length) const override {
    return RecordLogits(graph, 1, length);
  }
};

// Counts the collectives in a training step of a model, by operation.
std::map<CollectiveOperation, Count> CountsOf(const Case& run, const Model& model = *MakeGpt()) {
  RunConfig config;
  config.set_batch(16);
  config.set_sequence(6);
  config.set_micro_batches(run.micro_batches);
  config.mutable_optimizer()->set_kind("sgd");
  const auto graphs = RecordRun(model, config, RunGraphs::kAll);
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  const auto plugin = Plugin::Load("strategies/" + run.strategy + "/" + run.strategy + ".so");
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  Cluster cluster = ClusterOfMachine("test", MachineRates());
  cluster.set_ranks_per_host(run.ranks_per_host);
  const auto context = std::make_shared<const PlanningContext>(
      *graphs, PlanningFor{backend.get(), kRanks, cluster, SiteOnCluster(cluster, kRanks)});
  strategy::PlanRequest request;
  request.set_ranks(kRanks);
  *request.mutable_cluster() = cluster;
  request.set_micro_batches(run.micro_batches);
  const auto values = ReadOptions(*plugin, run.options);
  EXPECT_TRUE(values.ok()) << values.status();
  SetOptions(*values, request);
  auto made = PlanWith(*plugin, request, context, {});
  EXPECT_TRUE(made.ok()) << made.status();
  FillInSettings(PlanOfConfig(config, *graphs), made->plan);
  const auto compiled = CompileRun(*graphs, made->plan, *backend, kRanks);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  std::map<CollectiveOperation, Count> counts;
  const Program& program = *compiled->FindProgram(kTrain);
  for (const Instruction& instruction : program.instructions) {
    if (!program.Communicates(instruction)) continue;
    const CollectiveRequest& request = program.collectives[instruction.collective];
    if (request.elements < run.least_elements) continue;
    Count& count = counts[request.operation];
    ++count.calls;
    count.bytes += request.elements * SizeOf(request.dtype);
  }
  return counts;
}

constexpr auto kGather = CollectiveOperation::kAllGather;
constexpr auto kScatter = CollectiveOperation::kReduceScatter;
constexpr auto kReduce = CollectiveOperation::kAllReduce;

// The gathers of a step if a unit that is still gathered when it would be gathered again is kept:
// the last block from forward to backward, the first one from one micro-batch to the next.
constexpr int GathersOf(int micro_batches) { return 2 * (kBlocks - 1) * micro_batches + 2; }

// Blocks are gathered for each phase, and the root once.
TEST(CountsTest, FullyShardedGathersTwiceAndReducesOnce) {
  auto counts = CountsOf({"fsdp", {}});
  EXPECT_EQ(counts[kGather].calls, GathersOf(1));
  EXPECT_EQ(counts[kScatter].calls, kUnits);
  EXPECT_EQ(counts[kReduce].calls, 0);
  // With no prefetch, nothing is gathered again before it is needed.
  counts = CountsOf({"fsdp", {"prefetch=0"}});
  EXPECT_EQ(counts[kGather].calls, 2 * kUnits - 1);
  counts = CountsOf({"fsdp", {"reshard_root=yes", "prefetch=0"}});
  EXPECT_EQ(counts[kGather].calls, 2 * kUnits);
  EXPECT_EQ(counts[kGather].bytes, 2 * counts[kScatter].bytes);
  // The head uses the root last in forward and first in backward.
  counts = CountsOf({"fsdp", {"reshard_root=yes"}});
  EXPECT_EQ(counts[kGather].calls, 2 * kUnits - 1);
}

TEST(CountsTest, KeptParametersAreGatheredOnce) {
  for (const char* option : {"reshard=no", "shard=gradients"}) {
    auto counts = CountsOf({"fsdp", {option}});
    EXPECT_EQ(counts[kGather].calls, kUnits) << option;
    EXPECT_EQ(counts[kScatter].calls, kUnits) << option;
  }
}

// ZeRO-1: the reduce-scatters and the gathers send as much as the all-reduce of ddp, but for
// padding.
TEST(CountsTest, FullParametersAreGatheredAfterTheirUpdate) {
  const int64_t reduced = CountsOf({"ddp", {}})[kReduce].bytes;
  for (const int micro_batches : {1, 2}) {
    auto counts = CountsOf({"fsdp", {"shard=optimizer", "accumulate=full"}, micro_batches});
    EXPECT_EQ(counts[kGather].calls, kUnits);
    EXPECT_EQ(counts[kScatter].calls, kUnits);
    EXPECT_EQ(counts[kReduce].calls, 0);
    EXPECT_EQ(counts[kGather].bytes, counts[kScatter].bytes);
    EXPECT_NEAR(counts[kGather].bytes, reduced, kUnits * kRanks * 4);
    counts = CountsOf({"fsdp", {"shard=optimizer"}, micro_batches});
    EXPECT_EQ(counts[kGather].calls, kUnits);
    EXPECT_EQ(counts[kScatter].calls, kUnits * micro_batches);
  }
}

// Each micro-batch gathers the blocks again. Gradients are reduced after each, or accumulated and
// reduced once.
TEST(CountsTest, MicroBatches) {
  for (const int micro_batches : {2, 4}) {
    auto counts = CountsOf({"fsdp", {}, micro_batches});
    EXPECT_EQ(counts[kGather].calls, GathersOf(micro_batches));
    EXPECT_EQ(counts[kScatter].calls, kUnits * micro_batches);
    const int64_t bytes = counts[kScatter].bytes;
    counts = CountsOf({"fsdp", {"accumulate=full"}, micro_batches});
    EXPECT_EQ(counts[kGather].calls, GathersOf(micro_batches));
    EXPECT_EQ(counts[kScatter].calls, kUnits);
    EXPECT_EQ(counts[kScatter].bytes * micro_batches, bytes);
    counts = CountsOf({"fsdp", {"reshard=no", "accumulate=full"}, micro_batches});
    EXPECT_EQ(counts[kGather].calls, kUnits);
    EXPECT_EQ(counts[kScatter].calls, kUnits);
    // Across replicas gradients are reduced once. The gradient of the positions is computed after
    // the last micro-batch, so it is not accumulated, and is reduced by itself.
    counts = CountsOf({"fsdp", {"replicas=2"}, micro_batches});
    EXPECT_EQ(counts[kScatter].calls, kUnits * micro_batches);
    EXPECT_EQ(counts[kReduce].calls, kUnits + 1);
    counts = CountsOf({"ddp", {}, micro_batches});
    EXPECT_EQ(counts[kReduce].calls, 1);
  }
}

// Gathered over all ranks for the forward pass, and within two of them for the backward pass.
TEST(CountsTest, ReshardingWithinTwoRanks) {
  auto counts = CountsOf({"fsdp", {"reshard=2"}});
  EXPECT_EQ(counts[kGather].calls, kUnits + GathersOf(1));
  EXPECT_EQ(counts[kScatter].calls, 2 * kUnits);
  counts = CountsOf({"fsdp", {"reshard=2"}, 2});
  EXPECT_EQ(counts[kGather].calls, kUnits + GathersOf(2));
  EXPECT_EQ(counts[kScatter].calls, 2 * kUnits * 2);
}

// All-reduces the rank's shard of the gradients across the replicas.
TEST(CountsTest, HybridShardingAddsAnAllReduceForEachUnit) {
  auto counts = CountsOf({"fsdp", {"replicas=2"}});
  EXPECT_EQ(counts[kGather].calls, GathersOf(1));
  EXPECT_EQ(counts[kScatter].calls, kUnits);
  EXPECT_EQ(counts[kReduce].calls, kUnits);
  EXPECT_NEAR(counts[kReduce].bytes, 0.5 * counts[kScatter].bytes, 100);
}

TEST(CountsTest, DataParallelReducesEachGradientOnce) {
  auto one = CountsOf({"ddp", {}}), each = CountsOf({"ddp", {"bucket=0"}});
  EXPECT_EQ(one[kReduce].calls, 1);
  EXPECT_EQ(each[kReduce].calls, 12 * kBlocks + 4);
  EXPECT_EQ(one[kReduce].bytes, each[kReduce].bytes);
  EXPECT_EQ(one[kGather].calls + one[kScatter].calls, 0);
  auto none = CountsOf({"fsdp", {"shard=none"}});
  EXPECT_EQ(none[kReduce].bytes, one[kReduce].bytes);
}

// The table is also the head's weight; the gradient of that use is reduced by itself.
TEST(CountsTest, DataParallelGathersTheRowsOfEmbeddings) {
  auto reduced = CountsOf({"ddp", {}}), gathered = CountsOf({"ddp", {"embedding=gathered"}});
  EXPECT_EQ(gathered[kReduce].calls, reduced[kReduce].calls + 1);
  EXPECT_EQ(gathered[kReduce].bytes, reduced[kReduce].bytes);
  EXPECT_EQ(gathered[kGather].calls, 2);
  const int64_t tokens = 16 * 6, channels = 8;
  EXPECT_EQ(gathered[kGather].bytes, tokens * channels * 4 + tokens * 4);
}

// Activations of a block are added up twice in each direction, and so are those of the embedding
// and the gradient of the head's input. A rank has a head or none, and 16 of 61 rows or fewer.
TEST(CountsTest, TensorParallelReducesActivations) {
  const int64_t elements = 16 * 6 * 8, calls = 4 * kBlocks + 2;
  const auto count = [&](const std::string& option, int64_t least) {
    return CountsOf({"tensor", {option}, 1, 0, least});
  };
  auto reduced = count("sequence=no", elements);
  EXPECT_EQ(reduced[kReduce].calls, calls);
  EXPECT_EQ(reduced[kReduce].bytes, calls * elements * 4);
  EXPECT_EQ(reduced[kGather].calls + reduced[kScatter].calls, 0);
  // Nothing else but the parts of the loss, one for each token.
  auto all = count("sequence=no", 2);
  EXPECT_EQ(all[kGather].calls + all[kScatter].calls, 0);
  EXPECT_LE(all[kReduce].bytes - reduced[kReduce].bytes, 3 * 16 * 6 * 4);
  auto scattered = count("sequence=yes", elements);
  EXPECT_EQ(scattered[kReduce].calls, 0);
  EXPECT_EQ(scattered[kScatter].calls, calls);
  EXPECT_EQ(scattered[kGather].calls, calls);
  // Two ranks of a replica share the model; gradients are reduced across replicas, in one bucket.
  auto hybrid = count("degree=2", elements / 2);
  EXPECT_EQ(hybrid[kReduce].calls, calls + 1);
  // So it is by default where hosts have two ranks, or one.
  for (const int ranks_per_host : {1, 2}) {
    auto in_hosts = CountsOf({"tensor", {}, 1, ranks_per_host, elements / 2});
    EXPECT_EQ(in_hosts[kReduce].calls, calls + 1);
    EXPECT_EQ(in_hosts[kReduce].bytes, hybrid[kReduce].bytes);
  }
}

// The addition that reads the gradients of both embeddings gets one choice.
TEST(CountsTest, DataParallelGathersTheRowsOfATableThatIsReadTwice) {
  auto gathered = CountsOf({"ddp", {"embedding=gathered"}}, TwoEmbeddingsModel());
  const int64_t head = TwoEmbeddingsModel::kVocabulary * TwoEmbeddingsModel::kChannels;
  EXPECT_EQ(gathered[kReduce].bytes, head * 4);
  EXPECT_GE(gathered[kGather].calls, 2);
}

}  // namespace
}  // namespace tessera
