// Collectives between processes of one machine: ours, gloo's and Open MPI's, alternately in one
// run. Started by tests/rivals/collectives, as ranks of mpirun.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#define OMPI_SKIP_MPICXX 1  // leaves out its obsolete C++ interface
#include <mpi/mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/connected_world.h"
#include "core/status/status_macros.h"
#include "tools/comm_bench/bound.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;
constexpr int64_t kLargest = int64_t{64} << 20;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(World* world, std::shared_ptr<gloo::Context> gloo, float* shared, MemoryPass memory)
      : world_(world),
        gloo_(std::move(gloo)),
        shared_(shared),
        own_(kLargest / sizeof(float)),
        memory_(std::move(memory)) {}

  absl::Status Run() {
    if (world_->rank() == 0) {
      std::printf("%d ranks; the medians of %d rounds, in place, f32\n\n", world_->size(), kRounds);
      std::printf("%-15s %9s | %10s %10s %10s | %11s %11s | %s\n", "", "bytes", "tessera us",
                  "gloo us", "mpi us", "gloo / ours", "mpi / ours",
                  "of the bound, median and range");
    }
    for (const Operation operation :
         {Operation::kAllReduce, Operation::kReduceScatter, Operation::kAllGather}) {
      for (const int64_t bytes :
           {int64_t{4} << 10, int64_t{256} << 10, int64_t{4} << 20, kLargest}) {
        RETURN_IF_ERROR(Compare(operation, bytes));
      }
    }
    return absl::OkStatus();
  }

 private:
  int ranks() const { return world_->size(); }

  // Returns the seconds of one operation on the slowest rank.
  double Time(int64_t bytes, const std::function<void()>& body) {
    const int iterations = static_cast<int>(std::clamp<int64_t>(kLargest / bytes, 4, 500));
    body();
    MPI_Barrier(MPI_COMM_WORLD);
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < iterations; ++i) body();
    double seconds = std::chrono::duration<double>(Clock::now() - begin).count() / iterations;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
  }

  absl::Status Compare(Operation operation, int64_t bytes) {
    const int64_t part = bytes / 4 / ranks(), count = part * ranks();
    const int64_t own = part * world_->rank();
    Communicator& group = world_->communicator();
    // The sum of zeros is zero after any number of operations.
    std::fill(own_.begin(), own_.end(), 0.0f);
    std::fill_n(shared_, count, 0.0f);
    std::unique_ptr<gloo::Algorithm> reduce_scatter;
    if (operation == Operation::kReduceScatter) {
      reduce_scatter = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
          gloo_, std::vector<float*>{own_.data()}, static_cast<int>(count),
          std::vector<int>(ranks(), static_cast<int>(part)));
    }
    absl::Status status;
    const auto ours = [&] {
      if (!status.ok()) return;
      Ticket ticket;
      if (operation == Operation::kAllReduce) {
        ticket = group.AllReduce(shared_, shared_, count, DType::kF32);
      } else if (operation == Operation::kReduceScatter) {
        ticket = group.ReduceScatter(shared_, shared_ + own, count, part, DType::kF32);
      } else {
        ticket = group.AllGather(shared_ + own, shared_, count, part, DType::kF32);
      }
      status = group.Wait(ticket);
    };
    const auto theirs = [&] {
      if (operation == Operation::kAllReduce) {
        gloo::AllreduceOptions options(gloo_);
        options.setOutput(own_.data(), count);
        options.setReduceFunction([](void* sum, const void* a, const void* b, size_t n) {
          gloo::sum<float>(sum, a, b, n);
        });
        gloo::allreduce(options);
      } else if (operation == Operation::kReduceScatter) {
        reduce_scatter->run();
      } else {
        gloo::AllgatherOptions options(gloo_);
        options.setInput(own_.data() + own, part);
        options.setOutput(own_.data(), count);
        gloo::allgather(options);
      }
    };
    const auto mpi = [&] {
      const int n = static_cast<int>(count), m = static_cast<int>(part);
      if (operation == Operation::kAllReduce) {
        MPI_Allreduce(MPI_IN_PLACE, own_.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      } else if (operation == Operation::kReduceScatter) {
        MPI_Reduce_scatter_block(MPI_IN_PLACE, own_.data(), m, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      } else {
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, own_.data(), m, MPI_FLOAT,
                      MPI_COMM_WORLD);
      }
    };
    const auto memory = [&] {
      if (status.ok()) status = memory_.Run();
    };
    // Smaller buffers stay in caches.
    const bool has_bound = bytes == kLargest;
    const double passes = BytesMoved(operation, bytes, ranks(), true) / memory_.bytes();
    std::vector<double> seconds[3], shares;
    for (int round = 0; round < kRounds; ++round) {
      seconds[0].push_back(Time(bytes, ours));
      if (has_bound) shares.push_back(passes * Time(bytes, memory) / seconds[0].back());
      RETURN_IF_ERROR(status);
      seconds[1].push_back(Time(bytes, theirs));
      seconds[2].push_back(Time(bytes, mpi));
    }
    if (world_->rank() == 0) PrintRow(operation, count * 4, seconds, shares);
    return absl::OkStatus();
  }

  // `seconds` are those of our operation, of Gloo's and of MPI's, by round; `shares`, of our time,
  // are those that memory takes, or empty.
  static void PrintRow(Operation operation, int64_t bytes, const std::vector<double> (&seconds)[3],
                       const std::vector<double>& shares) {
    const double a = Median(seconds[0]), b = Median(seconds[1]), c = Median(seconds[2]);
    std::printf("%-15s %9ld | %10.1f %10.1f %10.1f | %11.2f %11.2f |",
                OperationName(operation).data(), static_cast<long>(bytes), a * 1e6, b * 1e6,
                c * 1e6, b / a, c / a);
    if (!shares.empty()) {
      const auto [low, high] = std::minmax_element(shares.begin(), shares.end());
      std::printf(" %3.0f %% (%.0f to %.0f)", 100 * Median(shares), 100 * *low, 100 * *high);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  World* const world_;
  const std::shared_ptr<gloo::Context> gloo_;
  float* const shared_;
  std::vector<float> own_;
  MemoryPass memory_;
};

absl::Status RunBench() {
  ASSIGN_OR_RETURN(const std::unique_ptr<ConnectedWorld> world, ConnectedWorld::Connect({}));
  char folder[64] = "/tmp/rivalsXXXXXX";
  if (world->rank() == 0 && mkdtemp(folder) == nullptr) {
    return absl::ErrnoToStatus(errno, "cannot make a folder");
  }
  MPI_Bcast(folder, sizeof(folder), MPI_CHAR, 0, MPI_COMM_WORLD);
  gloo::rendezvous::FileStore store(folder);
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  auto context = std::make_shared<gloo::rendezvous::Context>(world->rank(), world->size());
  context->connectFullMesh(store, device);
  ASSIGN_OR_RETURN(char* const shared, world->Allocate(kLargest));
  ASSIGN_OR_RETURN(MemoryPass memory, MemoryPass::Create(world->communicator()));
  Bench bench(world.get(), context, reinterpret_cast<float*>(shared), std::move(memory));
  const absl::Status status = bench.Run();
  MPI_Barrier(MPI_COMM_WORLD);
  if (world->rank() == 0) std::filesystem::remove_all(folder);
  const absl::Status left = world->Leave(status);
  return status.ok() ? left : status;
}

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  absl::Status status;
  try {
    status = RunBench();
  } catch (const std::exception& error) {  // of gloo
    status = absl::InternalError(error.what());
  }
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace tessera::comm

int main(int argc, char** argv) { return tessera::comm::Main(argc, argv); }
