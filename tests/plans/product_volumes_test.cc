// Checks the bytes that ranks send for a product, its gradients included, on grids of ranks: they
// are those of closed formulas, and never below the bound of any grid. From these products, the
// volumes of a transformer layer under known strategies.
//
// A product Y [M, N] = X [M, K] W [K, N] on a grid of m x n x k ranks: m splits the rows of X and
// Y, n the columns of W and Y, k the terms of each sum. Each matrix is stored in equal parts on all
// ranks.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/compile/compile.h"
#include "core/cost/request_traffic.h"
#include "core/kernels/cpu/backend.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/model/model.h"
#include "core/ops/ops.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "strategies/conformance/compare_training.h"
#include "strategies/conformance/rank_training.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

struct Product {
  int64_t m = 1, n = 1, k = 1;
};

struct Grid {
  int m = 1, n = 1, k = 1;
  // Replicas of the grid, each with a part of the rows; W's gradient is summed over them.
  int replicas = 1;
  // X and W are gathered again for the backward pass, instead of kept.
  bool gathers_again = false;

  int ranks() const { return m * n * k * replicas; }
};

// Trains X and W so that rows of X W have large values at their labels.
class ProductModel final : public Model {
 public:
  explicit ProductModel(const Product& product) : product_(product) {}

  std::vector<BatchField> BatchFields(int64_t /*sequence*/) const override {
    return {{"labels", {DType::kI32, {}}, product_.n, kIgnoreIndex}};
  }

  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t /*sequence*/,
                          bool /*training*/) const override {
    const Tensor labels = graph.Input("labels", {DType::kI32, {batch}}, 0);
    const Tensor x = graph.Parameter("x", {product_.m, product_.k}, Initializer::Normal(0, 1));
    const Tensor w = graph.Parameter("w", {product_.k, product_.n}, Initializer::Normal(0, 1));
    return CrossEntropy(Tanh(MatMul(x, w)), labels);
  }

 private:
  const Product product_;
};

RunConfig ConfigOf(const Product& product) {
  RunConfig config;
  config.set_batch(product.m);
  config.set_sequence(1);
  config.mutable_optimizer()->set_kind("sgd");
  config.mutable_optimizer()->set_lr(0.1);
  return config;
}

Plan PlanOf(const Grid& grid) {
  std::string text;
  for (const auto& [name, size] : {std::pair("r", grid.replicas), std::pair("m", grid.m),
                                   std::pair("n", grid.n), std::pair("k", grid.k)}) {
    absl::StrAppend(&text, "mesh { name: '", name, "' size: ", size, " } ");
  }
  // Between steps, a rank keeps an equal part of what it multiplies of X and W.
  const char* gather = grid.gathers_again ? "EACH_PHASE" : "ONCE";
  absl::StrAppend(&text, "store { path: 'x' layout: 'r: S(0), m: S(0), k: S(1)' } ",
                  "store { path: 'w' layout: 'n: S(1), k: S(0)' } ",
                  "group { path: 'x' over: 'n' gather: ", gather, " } ",
                  "group { path: 'w' over: 'm' gather: ", gather, " } ");
  absl::StrAppend(
      &text,
      "store { path: 'labels' layout: 'r: S(0), m: S(0), k: S(0)' } "
      "compute { path: 'matmul' signature: 'r: S(0), B -> S(0); m: S(0), B -> S(0); "
      "n: B, S(1) -> S(1); k: S(1), S(0) -> P' } "
      "compute { path: 'tanh' signature: 'r: S(0) -> S(0); m: S(0) -> S(0); n: S(1) -> S(1); "
      "k: S(0) -> S(0)' } ");
  return StagePlan(text);
}

// Returns whether an instruction is on X, W, Y or a gradient of these. The others are of the loss
// and of the update.
bool IsOfProduct(const Instruction& instruction) {
  return absl::StartsWith(instruction.path, "x.") || absl::StartsWith(instruction.path, "w.") ||
         absl::StartsWith(instruction.path, "matmul.");
}

// Returns the bytes that each rank sends for the product and its gradients, by operation.
std::map<CollectiveOperation, int64_t> CountedBytes(const Product& product, const Grid& grid) {
  const auto train = RecordTrain(ProductModel(product), ConfigOf(product));
  EXPECT_TRUE(train.ok()) << train.status();
  const auto run = CompileRun({*train}, PlanOf(grid), *MakeCpuBackend(1), grid.ranks());
  EXPECT_TRUE(run.ok()) << run.status();
  const Program& program = run->programs[0];
  std::map<CollectiveOperation, int64_t> bytes;
  for (const Instruction& instruction : program.instructions) {
    if (!program.Communicates(instruction) || !IsOfProduct(instruction)) continue;
    const CollectiveRequest& request = program.collectives[instruction.collective];
    int ranks = 1;
    for (const int axis : AxesOf(request, program.mesh)) ranks *= program.mesh.axis(axis).size;
    const GroupSite site = {CollectiveBackend::kShm, std::vector<int>(ranks, 0)};
    bytes[request.operation] += TrafficOf(CallOf(request, ranks), site, 0).bytes_sent;
  }
  return bytes;
}

int64_t CountedElements(const Product& product, const Grid& grid) {
  int64_t bytes = 0;
  for (const auto& [operation, sent] : CountedBytes(product, grid)) bytes += sent;
  return bytes / SizeOf(DType::kF32);
}

// With matrices that are kept: of each, a rank gathers what it lacks once and reduces as much.
int64_t ExpectedElements(const Product& product, const Grid& grid) {
  return 2 *
         ((grid.k - 1) * product.m * product.n + (grid.n - 1) * product.m * product.k +
          (grid.m - 1) * product.k * product.n) /
         grid.ranks();
}

// The least that any grid of `ranks` sends: the mean of the three terms is least if they are equal.
double LeastElements(const Product& product, int ranks) {
  const auto m = static_cast<double>(product.m), n = static_cast<double>(product.n),
             k = static_cast<double>(product.k);
  return 2 * (3 * std::cbrt(m * n * k / ranks) * std::cbrt(m * n * k / ranks) -
              (m * n + m * k + n * k) / ranks);
}

std::vector<Grid> GridsOf(int ranks) {
  std::vector<Grid> grids;
  for (int m = 1; m <= ranks; m *= 2) {
    for (int n = 1; m * n <= ranks; n *= 2) grids.push_back({m, n, ranks / (m * n)});
  }
  return grids;
}

TEST(ProductVolumesTest, EveryGridOfASquareProduct) {
  const Product product = {4096, 4096, 4096};
  for (const int ranks : {8, 64}) {
    const double least = LeastElements(product, ranks);
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (const Grid& grid : GridsOf(ranks)) {
      SCOPED_TRACE(absl::StrFormat("%d x %d x %d", grid.m, grid.n, grid.k));
      const int64_t counted = CountedElements(product, grid);
      EXPECT_EQ(counted, ExpectedElements(product, grid));
      EXPECT_GE(static_cast<double>(counted), least * (1 - 1e-12));
      fewest = std::min(fewest, counted);
    }
    EXPECT_NEAR(static_cast<double>(fewest), least, 1e-6 * least);  // of the cube
  }
  EXPECT_EQ(CountedElements(product, {2, 2, 2}), 12'582'912);
  EXPECT_EQ(CountedElements(product, {8, 1, 1}), 29'360'128);
  EXPECT_EQ(CountedElements(product, {4, 4, 4}), 4'718'592);
  EXPECT_EQ(CountedElements(product, {64, 1, 1}), 33'030'144);
}

// The products of a layer with h channels, for `rows` tokens.
std::vector<Product> LayerProducts(int64_t rows, int64_t h) {
  return {{rows, 3 * h, h}, {rows, h, h}, {rows, 4 * h, h}, {rows, h, 4 * h}};
}

int64_t LayerElements(const std::vector<Grid>& grids) {
  const std::vector<Product> products = LayerProducts(8 * 1024, 1024);
  int64_t elements = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    elements += CountedElements(products[i], grids[grids.size() == 1 ? 0 : i]);
  }
  return elements;
}

// The elements that each of 64 ranks sends for a layer of 1,024 channels and 8 x 1,024
// tokens, without what brings the result of one product to the layout that the next one reads.
TEST(ProductVolumesTest, StrategiesForATransformerLayer) {
  EXPECT_EQ(LayerElements({{64, 1, 1}}), 24'772'608) << "data parallel";
  const Grid columns = {1, 64, 1}, terms = {1, 1, 64};
  EXPECT_EQ(LayerElements({columns, terms, columns, terms}), 66'060'288) << "tensor parallel";
  const Grid columns_of_4 = {16, 4, 1}, terms_of_4 = {16, 1, 4};
  EXPECT_EQ(LayerElements({columns_of_4, terms_of_4, columns_of_4, terms_of_4}), 9'043'968)
      << "tensor x data parallel";
  EXPECT_EQ(LayerElements({{8, 8, 1, 1, true}}), 23'396'352) << "2-D";
  EXPECT_EQ(LayerElements({{4, 4, 1, 4, true}}), 16'515'072) << "2.5-D";
  EXPECT_EQ(LayerElements({{4, 4, 4}}), 13'762'560) << "3-D";
  std::vector<Grid> best;
  for (const Product& product : LayerProducts(8 * 1024, 1024)) {
    std::vector<Grid> grids = GridsOf(64);
    best.push_back(*std::min_element(grids.begin(), grids.end(), [&](const Grid& a, const Grid& b) {
      return ExpectedElements(product, a) < ExpectedElements(product, b);
    }));
  }
  EXPECT_EQ(LayerElements(best), 8'781'824) << "the best grid of each product";
}

// Ranks that train count the same bytes, and train as one process does.
TEST(ProductVolumesTest, RanksSendWhatIsCounted) {
  const Product product = {16, 24, 8};
  for (const Grid& grid : {Grid{2, 2, 2}, Grid{4, 2, 1}, Grid{1, 2, 4}, Grid{2, 2, 1, 2},
                           Grid{2, 4, 1, 1, true}, Grid{2, 2, 1, 2, true}}) {
    SCOPED_TRACE(
        absl::StrFormat("%d replicas of %d x %d x %d", grid.replicas, grid.m, grid.n, grid.k));
    const RunConfig config = ConfigOf(product);
    TrainingRun run = OnCpu(RecordTraining(std::make_shared<ProductModel>(product), config));
    // Gradients are no outputs, for which they would be gathered.
    auto train = RecordTrain(*run.model, config);
    ASSERT_TRUE(train.ok()) << train.status();
    run.graphs[1] = *std::move(train);
    run.steps = 3;
    const auto alone = Train(run, Plan(), 1);
    ASSERT_TRUE(alone.ok()) << alone.status();
    const auto result = Train(run, PlanOf(grid), grid.ranks());
    ASSERT_TRUE(result.ok()) << result.status();
    const Difference difference = Compare(*alone, *result);
    EXPECT_LE(difference.relative, 1e-5) << difference.where;
    // The loss has only all-reduces.
    auto counted = CountedBytes(product, grid);
    const auto sent = [&](CollectiveOperation operation) {
      return result->traffic[static_cast<size_t>(operation)].bytes_sent;
    };
    EXPECT_EQ(sent(CollectiveOperation::kAllGather), counted[CollectiveOperation::kAllGather]);
    EXPECT_EQ(sent(CollectiveOperation::kReduceScatter),
              counted[CollectiveOperation::kReduceScatter]);
    EXPECT_GT(counted[CollectiveOperation::kAllGather], 0);
  }
}

}  // namespace
}  // namespace tessera
