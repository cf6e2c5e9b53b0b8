#include "core/train/computing_times.h"

#include <algorithm>
#include <cstddef>

namespace tessera {

std::vector<InstructionTime> ComputingTimes(const Program& program,
                                            absl::Span<const InstructionTime> times) {
  std::vector<InstructionTime> sorted;
  for (size_t i = 0; i < times.size(); ++i) {
    if (!program.Communicates(program.instructions[i])) sorted.push_back(times[i]);
  }
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const InstructionTime& a, const InstructionTime& b) { return a.begin_ns < b.begin_ns; });
  std::vector<InstructionTime> joined;
  for (const InstructionTime& time : sorted) {
    if (joined.empty() || time.begin_ns > joined.back().end_ns) {
      joined.push_back(time);
    } else {
      joined.back().end_ns = std::max(joined.back().end_ns, time.end_ns);
    }
  }
  return joined;
}

}  // namespace tessera
