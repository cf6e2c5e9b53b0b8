// Runs redistributions between all pairs of layouts, with collectives along as many axes as
// possible, on ranks that are processes over each CPU backend, and checks that all give the same
// bits.
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/testing/connect_process.h"
#include "collectives/testing/ranks.h"
#include "core/kernels/reference/backend.h"
#include "core/layout/testing/rank_arrays.h"
#include "core/program/testing/redistribution_program.h"
#include "core/runtime/testing/ranks.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// The redistributions from one layout to all others.
struct Job {
  MeshLayout from;
  Program program;
  RankArrays x;
};

std::vector<Job> JobsOn(const Mesh& mesh, const Shape& shape) {
  static const CallPrices prices;
  RedistributionFinder finder(mesh, &prices);
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  std::vector<AxisLayout> along = {AxisLayout::Partial()};
  for (size_t d = 0; d < shape.size(); ++d) along.push_back(AxisLayout::Split(static_cast<int>(d)));
  const std::vector<MeshLayout> layouts = AllLayouts(mesh, along);
  std::vector<double> values;
  for (int64_t i = 0; i < NumElements(shape); ++i)
    values.push_back(1.0 / static_cast<double>(3 + i));
  std::vector<Job> jobs;
  for (const MeshLayout& from : layouts) {
    auto program = RedistributionProgram({DType::kF64, shape}, from, layouts, finder, *backend);
    EXPECT_TRUE(program.ok()) << program.status() << " from " << from.ToString(mesh);
    if (!program.ok()) continue;
    jobs.push_back({from, *std::move(program), Distribute(values, shape, from, mesh)});
  }
  return jobs;
}

// Runs all jobs on one rank, and appends the bytes of all results.
absl::Status RunJobs(comm::World& world, const std::vector<Job>& jobs, std::string* results) {
  for (const Job& job : jobs) {
    ASSIGN_OR_RETURN(const std::vector<std::vector<double>> outputs,
                     RunOnce(world, job.program, job.x.ranks[world.rank()].values));
    for (const std::vector<double>& values : outputs) {
      results->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    }
  }
  return world.Leave();
}

struct Setting {
  std::vector<int> mesh;
  Shape shape;
  int ranks_per_host;  // of the hierarchical backend
};

class RedistributionsOnBackendsTest : public ::testing::TestWithParam<Setting> {};

TEST_P(RedistributionsOnBackendsTest, AllGiveTheSameBits) {
  const Setting& setting = GetParam();
  const Mesh mesh = MeshOfSizes(setting.mesh);
  const int ranks = mesh.size();
  const std::vector<Job> jobs = JobsOn(mesh, setting.shape);
  int along_several = 0;
  for (const Job& job : jobs) {
    for (const CollectiveRequest& request : job.program.collectives) {
      if (request.mesh_axes.size() > 1) ++along_several;
    }
  }
  EXPECT_GT(along_several, 0);
  std::vector<std::string> expected(ranks);
  ExpectOk(comm::RunFake({.ranks = ranks, .seed = 1}, [&](comm::World& world) {
    return RunJobs(world, jobs, &expected[world.rank()]);
  }));
  for (const std::string& bytes : expected) ASSERT_FALSE(bytes.empty());
  for (const char* backend : {"shm", "tcp", "hierarchical"}) {
    comm::WorldOptions options;
    options.backend = backend;
    for (int rank = 0; rank < ranks && options.backend == "hierarchical"; ++rank) {
      options.hosts.push_back(absl::StrCat("host", rank / setting.ranks_per_host));
    }
    const std::string job = absl::StrCat("redistributions-", getpid(), "-", backend);
    const auto statuses = comm::RunProcesses(
        ranks, [&](int rank, const comm::Exchange& /*exchange*/) -> absl::Status {
          ASSIGN_OR_RETURN(const auto world, comm::ConnectProcess(rank, ranks, job, options));
          if (world->backend() != backend) return absl::InternalError("another backend");
          std::string results;
          RETURN_IF_ERROR(RunJobs(*world, jobs, &results));
          return results == expected[rank] ? absl::OkStatus()
                                           : absl::InternalError("other bits than of threads");
        });
    for (const absl::Status& status : statuses)
      EXPECT_TRUE(status.ok()) << backend << ": " << status;
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, RedistributionsOnBackendsTest,
                         ::testing::Values(Setting{{2, 2}, {5, 7}, 2}, Setting{{2, 3}, {5, 7}, 3},
                                           Setting{{4, 2}, {8, 9}, 2},
                                           Setting{{2, 2, 2}, {5, 7}, 4},
                                           Setting{{2, 2}, {3, 5, 4}, 2},
                                           Setting{{2, 3}, {3, 5, 4}, 2}),
                         [](const auto& info) {
                           return absl::StrCat("On", absl::StrJoin(info.param.mesh, "x"), "Rank",
                                               info.param.shape.size());
                         });

}  // namespace
}  // namespace tessera
