// The live bytes of a step over time, in few enough points to be drawn.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_VIEW_LIVE_MEMORY_H_
#define TESSERA_TOOLS_REPORT_VIEW_LIVE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cost/step_time.h"
#include "core/ids/table.h"
#include "core/program/memory/memory_plan.h"
#include "core/program/program.h"

namespace tessera {

// The live bytes from `seconds` after the start of the step until the next point.
struct LivePoint {
  double seconds = 0;
  BytesByCategory bytes{};

  int64_t total() const;
};

struct LiveMemory {
  MemorySide side = MemorySide::kDevice;
  std::vector<LivePoint> points;  // in the order of time; not empty
  size_t peak = 0;                // the point with the most bytes: those of ReportMemory

  const LivePoint& peak_point() const { return points[peak]; }
};

// Returns the live bytes on the device and, if anything is offloaded, in host memory, while the
// instructions of a step run at `times`. An instruction that begins before an earlier one of the
// Program counts as beginning with it. At most about `max_points` points are kept: of each of many
// equal intervals of the step those with the most and the fewest bytes, so that the peak is exact.
std::vector<LiveMemory> LiveMemoryOf(const Program& program,
                                     const Table<InstructionId, TimeSpan>& times,
                                     int max_points = 300);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_VIEW_LIVE_MEMORY_H_
