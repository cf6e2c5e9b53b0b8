#include <cstdio>
#include <cstdlib>
#include "tools/comm_bench/bench.h"
#include "collectives/shm/host.h"
#include "collectives/testing/ranks.h"
#include "core/tensor/check.h"
using namespace tessera;
int main(int argc, char** argv) {
  const int ranks = atoi(argv[1]);
  BenchOptions options;
  options.first_bytes = atoll(argv[2]);
  options.last_bytes = atoll(argv[3]);
  options.factor = atof(argv[4]);
  options.iterations = atoi(argv[5]);
  const bool shared = argc <= 6 || argv[6][0] != 'p';
  options.operations = {Operation::kAllReduce, Operation::kReduceScatter, Operation::kAllGather, Operation::kAllToAll, Operation::kBroadcast, Operation::kSend, Operation::kBarrier};
  auto results = RunProcesses(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const auto host, shm::Host::Create(rank, ranks, exchange, {}));
    ASSIGN_OR_RETURN(const auto world, host->World());
    const int64_t bytes = BufferBytes(options, ranks);
    char* first; char* second;
    if (shared) {
      ASSIGN_OR_RETURN(first, host->Allocate(*world, 2 * bytes + 4096));
    } else first = (char*)malloc(2 * bytes + 4096);
    second = first + bytes / 64 * 64 + 64;
    if (rank == 0) printf("%s", TableHead().c_str());
    return Bench(*world, options, first, second, [&](const BenchRow& row) { if (rank == 0) { printf("%s", TableRow(row, options).c_str()); fflush(stdout);} });
  });
  for (auto& s : results) if (!s.ok()) printf("%s\n", s.ToString().c_str());
}
