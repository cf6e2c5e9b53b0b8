// Checks every CPU backend: groups of meshes, large buffers, and equal bits.
#include "tests/collectives/backends.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/testing/conformance.h"
#include "core/status/status_macros.h"
#include "gtest/gtest.h"

namespace tessera::comm {
namespace {

class BackendsTest : public testing::TestWithParam<Backend> {
 protected:
  static void Run(int ranks, const std::function<absl::Status(Rank& self)>& body) {
    ExpectOk(RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(Rank self, GetParam().make(rank, ranks, exchange));
      return body(self);
    }));
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, BackendsTest,
                         testing::Values(Backend{"Shm", OnShm}, Backend{"Tcp", OnTcp},
                                         Backend{"Hierarchical", OnHierarchical}),
                         [](const auto& info) { return info.param.name; });

TEST_P(BackendsTest, MeshesOfTwoAndThreeAxes) {
  for (const std::vector<int>& shape :
       {std::vector<int>{4, 2}, std::vector<int>{2, 4}, std::vector<int>{2, 2, 2}}) {
    Run(8, [&](Rank& self) -> absl::Status {
      ConformanceOptions options;
      options.sizes = {0, 3, 5000};
      options.large_sizes = {};
      options.dtypes = {DType::kF32, DType::kBF16};
      if (self.allocate != nullptr) {
        ASSIGN_OR_RETURN(options.shared, self.allocate(2 * (5000 * 8 + 192)));
      }
      return CheckMesh(*self.world, shape, options);
    });
  }
}

TEST_P(BackendsTest, PowersOfTwoAndTheirNeighbours) {
  for (const int ranks : {2, 4, 8}) {
    Run(ranks, [&](Rank& self) -> absl::Status {
      ConformanceOptions options;
      options.sizes = {};
      for (int64_t size = 16; size <= 65536; size *= 4) {
        for (const int64_t more : {-1, 0, 1}) options.sizes.push_back(size + more);
      }
      options.large_sizes = {};
      options.dtypes = {DType::kF32};
      options.in_place = false;
      return CheckOperations(*self.world, options);
    });
  }
}

TEST_P(BackendsTest, OverSixtyFourMebibytes) {
  Run(2, [&](Rank& self) -> absl::Status {
    ConformanceOptions options;
    options.sizes = {(int64_t{8} << 20) + 1};
    options.large_sizes = {};
    options.dtypes = {DType::kI64};
    options.in_place = false;
    return CheckOperations(*self.world, options);
  });
}

// Sums one buffer in three ways: at once, in buckets, and as a reduce-scatter and an all-gather.
absl::Status SumInEveryWay(Communicator& world, DType dtype, const std::vector<char>& input,
                           std::vector<char>* result) {
  const int64_t size = SizeOf(dtype), count = static_cast<int64_t>(input.size()) / size;
  std::vector<char> other(input.size());
  result->resize(input.size());
  RETURN_IF_ERROR(world.Wait(world.AllReduce(input.data(), result->data(), count, dtype)));
  std::mt19937 random(7);  // the same on all ranks
  std::vector<Ticket> tickets;
  for (int64_t begin = 0; begin < count;) {
    const int64_t bucket = std::min<int64_t>(count - begin, random() % (count / 3));
    tickets.push_back(
        world.AllReduce(input.data() + begin * size, other.data() + begin * size, bucket, dtype));
    begin += bucket;
  }
  for (const Ticket& ticket : tickets) RETURN_IF_ERROR(world.Wait(ticket));
  if (other != *result) return absl::InternalError("in buckets there are other bits");
  const int64_t part = (count + world.size() - 1) / world.size() + 3;
  std::vector<char> own(part * size);
  RETURN_IF_ERROR(world.Wait(world.ReduceScatter(input.data(), own.data(), count, part, dtype)));
  std::fill(other.begin(), other.end(), 0);
  RETURN_IF_ERROR(world.Wait(world.AllGather(own.data(), other.data(), count, part, dtype)));
  if (other != *result) return absl::InternalError("of a reduce-scatter there are other bits");
  return absl::OkStatus();
}

TEST(BitsTest, AreTheSameOnEveryBackendInBucketsAndOfEveryOperation) {
  for (const int ranks : {2, 4, 8}) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      SCOPED_TRACE(absl::StrCat(ranks, " ranks, ", DTypeName(dtype)));
      std::vector<char> first;
      for (const auto make : {OnShm, OnTcp, OnHierarchical}) {
        std::vector<std::vector<char>> results(ranks);
        ExpectOk(RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
          ASSIGN_OR_RETURN(const Rank self, make(rank, ranks, exchange));
          std::vector<char> input(40001 * SizeOf(dtype));
          std::mt19937 random(rank);
          for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<char>(random());
          // No infinities nor NaNs: one bit of each exponent stays clear.
          for (size_t i = SizeOf(dtype) - 1; i < input.size(); i += SizeOf(dtype)) {
            input[i] = static_cast<char>(input[i] & 0xbf);
          }
          return SumInEveryWay(*self.world, dtype, input, &results[rank]);
        }));
        if (first.empty()) first = results[0];
        for (const std::vector<char>& result : results) EXPECT_TRUE(result == first);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::comm
