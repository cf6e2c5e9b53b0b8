// Measures the search: times and gaps for models of many equal blocks, of many different ones, and
// of a thousand operators, at limits between the least and the most memory that is of use.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "strategies/api/search/search.h"

namespace tessera::strategy::search {
namespace {

constexpr int kRanks = 8;

// Alternatives of a block of a GPT that computes for `ps`: replicated, sharded, gathered once, and
// the first two with its activations computed again.
std::vector<Alternative> BlockOf(int64_t parameter_bytes, int64_t activation_bytes, int64_t ps,
                                 double ps_per_byte) {
  const auto gather = static_cast<int64_t>(static_cast<double>(parameter_bytes) * ps_per_byte);
  const int64_t shard = (parameter_bytes + kRanks - 1) / kRanks;
  const Alternative replicated = {.forward_ps = ps,
                                  .backward_ps = 2 * ps,
                                  .reduction_ps = 2 * gather,
                                  .held_bytes = 3 * parameter_bytes + activation_bytes,
                                  .growth_bytes = parameter_bytes - activation_bytes,
                                  .surge_bytes = parameter_bytes};
  Alternative sharded = replicated;
  sharded.forward_gather_ps = sharded.backward_gather_ps = sharded.reduction_ps = gather;
  sharded.held_bytes = 3 * shard + activation_bytes;
  sharded.growth_bytes = shard - activation_bytes;
  sharded.surge_bytes = 2 * parameter_bytes;
  Alternative once = sharded;
  once.backward_gather_ps = 0;
  once.held_bytes += parameter_bytes;
  once.growth_bytes -= parameter_bytes;
  std::vector<Alternative> block = {replicated, sharded, once};
  for (int i = 0; i < 2; ++i) {
    Alternative recomputed = block[i];
    recomputed.backward_ps += ps;
    recomputed.held_bytes -= activation_bytes * 9 / 10;
    recomputed.growth_bytes += activation_bytes * 9 / 10;
    recomputed.surge_bytes += activation_bytes * 9 / 10;
    block.push_back(recomputed);
  }
  return block;
}

struct Case {
  const char* name;
  int units;
  bool equal;
  int alternatives;  // the first ones of a block
  double gap;
};

void Measure(const Case& of) {
  for (const double ps_per_byte : {3.0, 12.0, 60.0}) {  // computation takes 20 ps a byte
    std::mt19937_64 engine(7);
    Problem problem;
    for (int i = 0; i < of.units; ++i) {
      if (of.equal && i > 0) {
        problem.units.push_back(problem.units.back());
        continue;
      }
      const auto draw = [&engine](int64_t low, int64_t high) {
        return low + static_cast<int64_t>(engine() % (high - low));
      };
      const int64_t bytes = draw(4'000'000, 60'000'000);
      problem.units.push_back(
          BlockOf(bytes, draw(2'000'000, 40'000'000), bytes * draw(10, 30), ps_per_byte));
      problem.units.back().resize(of.alternatives);
    }
    const Solution least = Solve(problem);
    problem.limit_bytes = INT64_MAX / 4;
    const Solution most = Solve(problem);
    double slowest_ms = 0, worst_gap = 0;
    for (int i = 1; i <= 9; ++i) {
      problem.limit_bytes =
          least.least_peak_bytes + (most.outcome.peak_bytes - least.least_peak_bytes) / 10 * i;
      const auto start = std::chrono::steady_clock::now();
      const Solution solution = Solve(problem, {.gap = of.gap});
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      slowest_ms = std::max(slowest_ms, took.count());
      worst_gap = std::max(worst_gap, solution.gap());
    }
    std::printf("%-26s %12d %12.1f %11.1f ms %10.4f %%\n", of.name, of.alternatives,
                ps_per_byte / 20, slowest_ms, 100 * worst_gap);
  }
}

}  // namespace
}  // namespace tessera::strategy::search

int main() {
  std::printf("the slowest and the worst of 9 limits\n");
  std::printf("%-26s %12s %12s %14s %12s\n", "units", "alternatives", "gather/fwd", "time", "gap");
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const auto& of :
       std::vector<tessera::strategy::search::Case>{{"48 equal", 48, true, 2, 0},
                                                    {"48 equal", 48, true, 5, 0},
                                                    {"50 distinct", 50, false, 2, 0},
                                                    {"50 distinct", 50, false, 5, 0},
                                                    {"1000 distinct", 1000, false, 2, 0.002},
                                                    {"1000 distinct", 1000, false, 5, 0.002}}) {
    tessera::strategy::search::Measure(of);
  }
}
