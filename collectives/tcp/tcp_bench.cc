// All-reduce among two ranks of this host over loopback: ours, and gloo's own, by turns.
//   ./bazelw run //collectives/tcp:tcp_bench
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/tcp/network.h"
#include "collectives/testing/ranks.h"
#include "core/tensor/check.h"

namespace tessera::tcp {
namespace {

using Clock = std::chrono::steady_clock;

void AllReduceOfGloo(const std::shared_ptr<gloo::Context>& context, std::vector<float>& data) {
  gloo::AllreduceOptions options(context);
  options.setOutput(data.data(), data.size());
  options.setReduceFunction([](void* sum, const void* a, const void* b, size_t count) {
    gloo::sum<float>(sum, a, b, count);
  });
  gloo::allreduce(options);
}

double Seconds(int turns, const std::function<void()>& body) {
  const Clock::time_point begin = Clock::now();
  for (int turn = 0; turn < turns; ++turn) body();
  return std::chrono::duration<double>(Clock::now() - begin).count() / turns;
}

absl::Status Bench(int rank, const Exchange& exchange, const std::string& folder) {
  constexpr int kRanks = 2, kRounds = 5;
  ASSIGN_OR_RETURN(const auto network, Network::Create(rank, kRanks, exchange, {}));
  ASSIGN_OR_RETURN(const auto world, network->World());
  gloo::rendezvous::FileStore store(folder);
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, kRanks);
  context->connectFullMesh(store, device);
  if (rank == 0) {
    std::printf("all-reduce of f32, %d ranks, %u cores; the best of %d rounds each\n", kRanks,
                std::thread::hardware_concurrency(), kRounds);
    std::printf("%10s %12s %14s %12s %14s %8s\n", "bytes", "us", "algbw (GB/s)", "gloo us",
                "algbw (GB/s)", "gloo/us");
  }
  for (const int64_t bytes : {int64_t{4} << 10, int64_t{64} << 10, int64_t{1} << 20,
                              int64_t{16} << 20, int64_t{64} << 20}) {
    std::vector<float> data(bytes / 4, 0.0f);
    const int turns = static_cast<int>(std::clamp<int64_t>((int64_t{64} << 20) / bytes, 2, 100));
    double ours = 1e9, theirs = 1e9;
    absl::Status status;
    for (int round = 0; round < kRounds; ++round) {
      ours =
          std::min(ours, Seconds(turns, [&] {
                     if (!status.ok()) return;
                     status = world->Wait(world->AllReduce(
                         data.data(), data.data(), static_cast<int64_t>(data.size()), DType::kF32));
                   }));
      RETURN_IF_ERROR(status);
      theirs = std::min(theirs, Seconds(turns, [&] { AllReduceOfGloo(context, data); }));
    }
    const double size = static_cast<double>(bytes);
    if (rank == 0) {
      std::printf("%10ld %12.1f %14.2f %12.1f %14.2f %8.2f\n", static_cast<long>(bytes), ours * 1e6,
                  size / ours * 1e-9, theirs * 1e6, size / theirs * 1e-9, theirs / ours);
      std::fflush(stdout);
    }
  }
  return absl::OkStatus();
}

int Main() {
  char folder[] = "/tmp/tcp_benchXXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const auto results = RunProcesses(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    try {
      return Bench(rank, exchange, folder);
    } catch (const std::exception& error) {
      return absl::InternalError(error.what());
    }
  });
  std::filesystem::remove_all(folder);
  for (const absl::Status& status : results) {
    if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  }
  return results[0].ok() && results[1].ok() ? 0 : 1;
}

}  // namespace
}  // namespace tessera::tcp

int main() { return tessera::tcp::Main(); }
