// The trainer gives the same bits on ranks that are threads of this process as on one rank.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "core/kernels/reference/backend.h"
#include "core/status/status_macros.h"
#include "core/train/data/synthetic_dataset.h"
#include "core/train/programs.h"
#include "core/train/ranks/compile_ranks.h"
#include "core/train/ranks/rank_engine.h"
#include "core/train/ranks/ranks.h"
#include "core/train/sampling.h"
#include "core/train/testing/bigram.h"
#include "core/train/trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// The results of a run on one rank.
struct Seen {
  std::vector<double> losses;  // of steps, then of an evaluation
  std::vector<int32_t> tokens;
  std::vector<char> state;

  bool operator==(const Seen& other) const {
    return losses == other.losses && tokens == other.tokens && state == other.state;
  }
};

absl::StatusOr<std::vector<char>> StateOf(Engine& engine) {
  std::vector<char> all;
  for (const StateInfo& state : engine.states()) {
    std::vector<char> bytes(NumBytes(state.type));
    RETURN_IF_ERROR(engine.ReadState(state, 0, absl::MakeSpan(bytes)));
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

absl::StatusOr<std::vector<int32_t>> TokensOf(Engine& engine, Ranks& ranks) {
  const std::vector<int32_t> prompt = {1, 2};
  GenerationRequest request;
  request.prompt = prompt;
  request.tokens = 12;
  request.temperature = 1;
  request.seed = 9;
  request.allowed_tokens = BigramModel::kVocabulary;
  request.max_sequence = 4;
  request.agree = [&ranks](int32_t token) -> absl::StatusOr<int32_t> {
    int64_t agreed = ranks.is_first() ? token : -1;
    RETURN_IF_ERROR(ranks.Max(absl::MakeSpan(&agreed, 1)));
    return static_cast<int32_t>(agreed);
  };
  std::vector<int32_t> tokens;
  RETURN_IF_ERROR(Generate(engine, request, [&tokens](int32_t token) {
    tokens.push_back(token);
    return true;
  }));
  return tokens;
}

constexpr int64_t kEvaluationRows = 7;  // batches have 3

// A rank of a run: its own Graphs, backend, engine and trainer.
struct RankRun {
  static absl::StatusOr<std::unique_ptr<RankRun>> Create(Ranks& ranks, Plan plan) {
    auto run = std::make_unique<RankRun>();
    const RunConfig config = BigramConfig();
    ASSIGN_OR_RETURN(const std::vector<Graph> graphs,
                     RecordRun(run->model, config, RunGraphs::kAll));
    if (plan.stages_size() == 0) plan = PlanOfConfig(config, graphs);
    ASSIGN_OR_RETURN(CompiledRun compiled, CompileTogether(graphs, plan, *run->backend, ranks));
    ASSIGN_OR_RETURN(run->engine, MakeRankEngine(std::move(compiled), run->backend.get(), ranks));
    ASSIGN_OR_RETURN(run->dataset,
                     SyntheticDataset::Create(BigramModel().BatchFields(config.sequence()),
                                              kEvaluationRows, config.seed()));
    run->trainer = std::make_unique<Trainer>(config, &run->model, run->engine.get(),
                                             run->dataset.get(), &ranks);
    return run;
  }

  BigramModel model;
  std::unique_ptr<Backend> backend = MakeReferenceBackend();
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<Trainer> trainer;
};

using Body = std::function<absl::Status(Ranks& ranks)>;

std::vector<absl::Status> RunRanks(int size, const Body& body) {
  return comm::RunFake({.ranks = size, .seed = 7}, [&](comm::World& world) -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Create(&world));
    absl::Status status = body(*ranks);
    if (!status.ok()) ranks->Abort(status);
    return status;
  });
}

// Returns a Plan in which all layouts are B: each rank computes the full batch.
Plan Replicated() {
  Plan plan;
  plan.add_stages()->add_mesh()->set_name("data");
  return plan;
}

absl::StatusOr<Seen> Look(RankRun& run, Ranks& ranks, int steps) {
  Seen seen;
  for (int i = 0; i < steps; ++i) {
    ASSIGN_OR_RETURN(const StepResult result, run.trainer->Step());
    seen.losses.push_back(result.loss);
  }
  ASSIGN_OR_RETURN(const EvaluationResult evaluated,
                   run.trainer->Evaluate([](const absl::Status&) { return false; }));
  seen.losses.push_back(evaluated.loss);
  EXPECT_EQ(evaluated.metrics.size(), 1);
  for (const auto& [name, mean] : evaluated.metrics) seen.losses.push_back(mean);
  ASSIGN_OR_RETURN(seen.tokens, TokensOf(*run.engine, ranks));
  ASSIGN_OR_RETURN(seen.state, StateOf(*run.engine));
  return seen;
}

// Trains six steps on `size` ranks, and returns the results of each rank.
std::vector<Seen> Train(int size, const Plan& plan) {
  std::vector<Seen> seen(size);
  for (const absl::Status& status : RunRanks(size, [&](Ranks& ranks) -> absl::Status {
         ASSIGN_OR_RETURN(const auto run, RankRun::Create(ranks, plan));
         RETURN_IF_ERROR(run->trainer->Initialise());
         ASSIGN_OR_RETURN(seen[ranks.rank()], Look(*run, ranks, 6));
         return absl::OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  return seen;
}

TEST(TrainerRanksTest, ReplicasGiveTheBitsOfOneProcess) {
  const Seen expected = Train(1, Plan())[0];
  EXPECT_EQ(expected.losses.size(), 8);
  EXPECT_EQ(expected.tokens.size(), 12);
  for (const int size : {1, 2, 3}) {
    for (const Seen& seen : Train(size, Replicated())) EXPECT_TRUE(seen == expected) << size;
  }
}

// The last batch has one row, so that ranks have none of it.
TEST(TrainerRanksTest, EvaluationCountsEachRowOnce) {
  Plan plan = Replicated();
  StoreChoice& store = *plan.mutable_stages(0)->add_store();
  store.set_path("tokens|targets");
  store.set_layout("data: S(0)");
  const Seen expected = Train(1, Plan())[0];
  for (const int size : {2, 3}) {
    for (const Seen& seen : Train(size, plan)) {
      EXPECT_NEAR(seen.losses[6], expected.losses[6], 1e-12) << size;
      EXPECT_EQ(seen.losses[7], expected.losses[7]) << size;
    }
  }
}

TEST(TrainerRanksTest, RanksSaveTogetherAndAnyNumberOfRanksLoads) {
  const std::string folder = ::testing::TempDir() + "ranks_save";
  const Seen expected = Train(1, Plan())[0];
  for (const absl::Status& status : RunRanks(2, [&](Ranks& ranks) -> absl::Status {
         ASSIGN_OR_RETURN(const auto run, RankRun::Create(ranks, Replicated()));
         RETURN_IF_ERROR(run->trainer->Initialise());
         for (int i = 0; i < 2; ++i) RETURN_IF_ERROR(run->trainer->Step().status());
         ASSIGN_OR_RETURN(const SavedCheckpoint saved, run->trainer->Save(folder, "a config"));
         EXPECT_THAT(saved.folder, HasSubstr("step_00000002"));
         return absl::OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  for (const int size : {1, 3}) {
    for (const absl::Status& status : RunRanks(size, [&](Ranks& ranks) -> absl::Status {
           ASSIGN_OR_RETURN(const auto run, RankRun::Create(ranks, Replicated()));
           ASSIGN_OR_RETURN(const OpenedCheckpoint opened, OpenCheckpoint(folder));
           RETURN_IF_ERROR(
               run->trainer->Load(*opened.checkpoint, Extra::kRefuse, opened.checkpoint->rows())
                   .status());
           ASSIGN_OR_RETURN(const Seen seen, Look(*run, ranks, 4));
           EXPECT_EQ(seen.state, expected.state);
           return absl::OkStatus();
         })) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST(TrainerRanksTest, AFailedSaveIsTheSameErrorOnAllRanks) {
  const std::string file = ::testing::TempDir() + "no_folder";
  std::ofstream(file) << "text";
  const auto results = RunRanks(2, [&](Ranks& ranks) -> absl::Status {
    ASSIGN_OR_RETURN(const auto run, RankRun::Create(ranks, Replicated()));
    RETURN_IF_ERROR(run->trainer->Initialise());
    return run->trainer->Save(file, "").status();
  });
  EXPECT_FALSE(results[0].ok());
  EXPECT_TRUE(IsAgreed(results[0]));
  EXPECT_EQ(results[0], results[1]);
}

TEST(TrainerRanksTest, AMeshOfAnotherSizeIsRefused) {
  Plan plan = Replicated();
  plan.mutable_stages(0)->mutable_mesh(0)->set_size(3);
  const auto results =
      RunRanks(2, [&](Ranks& ranks) { return RankRun::Create(ranks, plan).status(); });
  for (const absl::Status& status : results) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the Plan's mesh: "));
    EXPECT_TRUE(IsAgreed(status));
  }
}

TEST(TrainerRanksTest, APlanWithoutAMeshIsForOneRank) {
  const auto results =
      RunRanks(2, [&](Ranks& ranks) { return RankRun::Create(ranks, Plan()).status(); });
  EXPECT_THAT(std::string(results[1].message()),
              HasSubstr("the Plan has no mesh for the 2 ranks of the job"));
}

TEST(TrainerRanksTest, RanksWithOtherGraphsAreNamed) {
  const auto results = RunRanks(3, [&](Ranks& ranks) -> absl::Status {
    RunConfig config = BigramConfig();
    if (ranks.rank() == 1) config.set_batch(6);
    const BigramModel model;
    ASSIGN_OR_RETURN(const std::vector<Graph> graphs,
                     RecordRun(model, config, RunGraphs::kEvaluate));
    const std::unique_ptr<Backend> backend = MakeReferenceBackend();
    return CompileTogether(graphs, Replicated(), *backend, ranks).status();
  });
  for (const absl::Status& status : results) {
    EXPECT_TRUE(IsAgreed(status));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 1 differs from rank 0 in the graph 'evaluate'"));
  }
}

// Regression: the others waited for a rank that lacked memory until the time-out, in the allocation
// of the shared arena, and named another cause.
TEST(TrainerRanksTest, ALackOfMemoryOnOneRankIsTheErrorOfAll) {
  for (const MemorySpace space : {MemorySpace::kDevice, MemorySpace::kOffloadHost}) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<absl::Status> results = RunRanks(3, [&](Ranks& ranks) -> absl::Status {
      const RunConfig config = BigramConfig();
      BigramModel model;
      const std::unique_ptr<Backend> backend = MakeReferenceBackend();
      ASSIGN_OR_RETURN(std::vector<Graph> graphs, RecordRun(model, config, RunGraphs::kAll));
      ASSIGN_OR_RETURN(CompiledRun run, CompileTogether(graphs, Replicated(), *backend, ranks));
      run.arenas[MemorySpace::kShared] = 4096;
      if (ranks.rank() == 1) run.arenas[space] = int64_t{1} << 50;
      return MakeRankEngine(std::move(run), backend.get(), ranks).status();
    });
    for (const absl::Status& status : results) {
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: "));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  }
}

}  // namespace
}  // namespace tessera
