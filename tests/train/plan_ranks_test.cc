// Checks the documented Plans on ranks that are processes: after 20 steps losses and state equal
// those of one process, within a host, over the network and on two hosts.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/train/checkpoint/open_checkpoint.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using State = std::map<std::string, std::vector<float>>;

std::vector<std::string> TrainFlags() {
  return {"--optimizer=sgd", "--lr=0.1", "--batch=8", "--set=model.dropout=0.1,model.layers=2",
          "--eval_every=10"};
}

// Returns all floating states of the newest checkpoint of a run, from the files of all ranks.
State StateOf(const std::string& folder) {
  State state;
  const auto opened = OpenCheckpoint(folder);
  EXPECT_TRUE(opened.ok()) << opened.status();
  if (!opened.ok()) return state;
  const Checkpoint& checkpoint = *opened->checkpoint;
  EXPECT_EQ(checkpoint.step(), 20);
  for (const StateEntry& entry : checkpoint.state()) {
    if (entry.type.dtype != DType::kF32) continue;
    std::string bytes(NumBytes(entry.type), '\0');
    const absl::Status read =
        checkpoint.ReadShard(entry.path, FullShard(entry.type.shape), absl::MakeSpan(bytes));
    EXPECT_TRUE(read.ok()) << read;
    std::vector<float>& values = state[entry.path];
    values.resize(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return state;
}

// Returns the norm of the difference of two tensors, divided by the norm of the first one.
double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double distance = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    distance += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{a[i]} * a[i];
  }
  return distance == 0 ? 0 : std::sqrt(distance / norm);
}

void ExpectNear(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * std::abs(a[i])) << i;
}

struct Job {
  int ranks;
  std::vector<std::string> flags;
};

class PlanRanksTest : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    alone_ = new std::string(NewFolder());
    std::vector<std::string> flags = TrainFlags();
    flags.push_back("--out=" + *alone_);
    const Result result = RunProgram(GptProgram(), Tiny(flags));
    ASSERT_EQ(result.code, 0) << result.err;
  }
  static void TearDownTestSuite() { delete alone_; }

  static std::string* alone_;
};
std::string* PlanRanksTest::alone_ = nullptr;

TEST_P(PlanRanksTest, TrainsAsOneProcessDoes) {
  const State expected = StateOf(*alone_);
  ASSERT_GT(expected.size(), 20u);
  for (const Job& job :
       {Job{2, {"--backend=shm"}}, Job{4, {"--backend=shm"}}, Job{2, {"--backend=tcp"}},
        Job{4, {"--backend=tcp"}}, Job{4, {"--hosts=a,a,b,b"}}}) {
    SCOPED_TRACE(std::to_string(job.ranks) + " ranks, " + job.flags[0]);
    const std::string folder = NewFolder();
    std::vector<std::string> flags = TrainFlags();
    flags.insert(flags.end(), job.flags.begin(), job.flags.end());
    flags.push_back("--out=" + folder);
    const Result result =
        RunProgram(GptProgram(), OnRanks(job.ranks, DocumentedPlan(GetParam()), flags));
    ASSERT_EQ(result.code, 0) << result.err;
    for (const char* name : {"loss", "grad_norm", "eval_loss"}) {
      ExpectNear(Field(*alone_, name), Field(folder, name));
    }
    const State state = StateOf(folder);
    ASSERT_EQ(state.size(), expected.size());
    for (const auto& [path, values] : expected) {
      ASSERT_EQ(state.at(path).size(), values.size()) << path;
      EXPECT_LE(Distance(values, state.at(path)), 1e-5) << path;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, PlanRanksTest,
                         ::testing::Values("data_parallel", "fully_sharded", "hybrid_sharded",
                                           "tensor_parallel", "data_tensor_parallel", "zero1"),
                         [](const auto& plan) { return plan.param; });

}  // namespace
}  // namespace tessera
