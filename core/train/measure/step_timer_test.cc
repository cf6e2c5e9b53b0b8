// Times the parts of a step on ranks that are threads of this process.
#include "core/train/measure/step_timer.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "collectives/fake/fake.h"
#include "core/kernels/reference/backend.h"
#include "core/status/status_macros.h"
#include "core/train/data/synthetic_dataset.h"
#include "core/train/programs.h"
#include "core/train/ranks/compile_ranks.h"
#include "core/train/ranks/ranks.h"
#include "core/train/testing/bigram.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using Body = std::function<absl::Status(StepTimer&)>;

// Runs the body on each of 2 ranks, with a timer for a run whose Plan has this stage.
void ExpectOnTwoRanks(const std::string& stage, const Body& body) {
  const std::vector<absl::Status> statuses =
      comm::RunFake({.ranks = 2, .seed = 7}, [&](comm::World& world) -> absl::Status {
        Plan plan;
        if (!google::protobuf::TextFormat::ParseFromString("stages {" + stage + "}", &plan)) {
          return absl::InvalidArgumentError(stage);
        }
        ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Create(&world));
        absl::Status status = [&]() -> absl::Status {
          const BigramModel model;
          const RunConfig config = BigramConfig();
          const std::unique_ptr<Backend> backend = MakeReferenceBackend();
          ASSIGN_OR_RETURN(const std::vector<Graph> graphs,
                           RecordRun(model, config, RunGraphs::kAll));
          ASSIGN_OR_RETURN(CompiledRun compiled, CompileTogether(graphs, plan, *backend, *ranks));
          ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset,
                           SyntheticDataset::Create(BigramModel().BatchFields(config.sequence()),
                                                    8 * config.batch(), config.seed()));
          ASSIGN_OR_RETURN(const std::unique_ptr<StepTimer> timer,
                           StepTimer::Create({config, &model, dataset.get()}, std::move(compiled),
                                             backend.get(), ranks.get()));
          return body(*timer);
        }();
        if (!status.ok()) ranks->Abort(status);
        return status;
      });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

absl::StatusOr<std::vector<char>> StateOf(Engine& engine) {
  std::vector<char> all;
  for (const StateInfo& state : engine.states()) {
    std::vector<char> bytes(NumBytes(state.type));
    RETURN_IF_ERROR(engine.ReadState(state, 0, absl::MakeSpan(bytes)));
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

// Fills all buffers except state with bytes 0xFF: floats are NaN, and ids are invalid.
absl::Status Poison(Engine& engine) {
  for (const Buffer& buffer : engine.executor(kTrain).program().buffers) {
    if (buffer.state) continue;
    const std::vector<char> ones(buffer.bytes, '\xff');
    RETURN_IF_ERROR(engine.WriteArena({buffer.space, buffer.offset}, ones));
  }
  return absl::OkStatus();
}

// Computation alone computes the same values as the next step, whatever the buffers that
// collectives fill contained before.
TEST(StepTimerTest, ComputationAloneIsTheNextStep) {
  for (const std::string decision :
       {R"(group { path: "table|head" over: "data" })",
        R"plan(compute { path: "embedding.backward.embedding_grad" signature: "data: B" })plan"}) {
    SCOPED_TRACE(decision);
    ExpectOnTwoRanks(
        R"plan(mesh { name: "data" } store { path: "tokens|targets" layout: "data: S(0)" })plan" +
            decision,
        [](StepTimer& timer) -> absl::Status {
          RETURN_IF_ERROR(timer.RecordStep().status());
          RETURN_IF_ERROR(timer.SetStateAside());
          ASSIGN_OR_RETURN(const std::vector<char> before, StateOf(timer.engine()));
          RETURN_IF_ERROR(Poison(timer.engine()));
          RETURN_IF_ERROR(timer.TimeComputation().status());
          ASSIGN_OR_RETURN(const std::vector<char> after, StateOf(timer.engine()));
          EXPECT_NE(before, after);
          RETURN_IF_ERROR(timer.TimeCommunication().status());
          RETURN_IF_ERROR(timer.PutStateBack());
          StepResult result;
          RETURN_IF_ERROR(timer.TimeStep(&result).status());
          EXPECT_TRUE(result.finite);
          ASSIGN_OR_RETURN(const std::vector<char> stepped, StateOf(timer.engine()));
          EXPECT_EQ(after, stepped);
          return absl::OkStatus();
        });
  }
}

// Every kernel and every collective of the step gets a price, the same on all ranks.
TEST(StepTimerTest, TakesPricesOfKernelsAndCollectives) {
  ExpectOnTwoRanks(
      R"plan(mesh { name: "data" } store { path: "tokens|targets" layout: "data: S(0)" }
             group { path: "table|head" over: "data" })plan",
      [](StepTimer& timer) -> absl::Status {
        RETURN_IF_ERROR(timer.RecordStep().status());
        const GroupSite site = {CollectiveBackend::kShm, {0, 0}};
        for (int round = 0; round < 2; ++round) {
          RETURN_IF_ERROR(timer.SetStateAside());
          RETURN_IF_ERROR(timer.TimeComputation().status());
          RETURN_IF_ERROR(timer.TimeComputation().status());
          ASSIGN_OR_RETURN(const MeasuredPrices prices, timer.TakePrices(site, ""));
          RETURN_IF_ERROR(timer.PutStateBack());
          const Program& program = timer.engine().executor(kTrain).program();
          for (const PlannedKernel& kernel : program.kernels) {
            const Price price = prices.kernels.Of(kernel, 2, {}, DType::kF32,
                                                  [](const OpCost&, DType) { return -1.0; });
            EXPECT_EQ(price.source, PriceSource::kMeasured) << kernel.key;
            EXPECT_GT(price.seconds, 0) << kernel.key;
          }
          size_t points = 0;
          for (const auto& [name, curve] : prices.collectives.curves()) {
            EXPECT_TRUE(absl::StrContains(name, "shm, 2 ranks; 2 ranks of 1 thread on a host"))
                << name;
            for (const auto& [bytes, measured] : curve) {
              ++points;
              EXPECT_EQ(measured.size(), 1);
              EXPECT_GT(measured[0].alone, 0) << name << " " << bytes;
              EXPECT_GE(measured[0].beside, measured[0].alone) << name << " " << bytes;
              EXPECT_GE(measured[0].taken, 0) << name << " " << bytes;
            }
          }
          EXPECT_EQ(points, program.collectives.size());
        }
        return absl::OkStatus();
      });
}

}  // namespace
}  // namespace tessera
