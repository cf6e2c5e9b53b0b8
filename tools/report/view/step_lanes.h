// When each kind of a step's work runs, in few enough spans to be drawn.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_VIEW_STEP_LANES_H_
#define TESSERA_TOOLS_REPORT_VIEW_STEP_LANES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/cost/step_time.h"
#include "core/ids/table.h"
#include "core/program/program.h"

namespace tessera {

// A time in which a kind of work runs during `share` of it, in (0, 1].
struct LaneSpan {
  double begin = 0;  // seconds from the start of the step
  double end = 0;
  double share = 1;

  double busy_seconds() const { return share * (end - begin); }
};

enum class LaneKind : uint8_t {
  kForward,
  kBackward,
  kUpdate,
  kRecomputation,
  kHostCopies,
  kCommunication,  // one operation on one stream
  kExposed,        // only communication runs: nothing computes
};

// One kind of work of a step.
struct StepLane {
  LaneKind kind = LaneKind::kForward;
  std::string work;    // "forward", "all-gather", "only communication"
  std::string stream;  // "compute"; "" for kExposed
  int64_t instructions = 0;
  double seconds = 0;           // in which at least one of the instructions runs
  std::vector<LaneSpan> spans;  // disjoint, in order; their busy seconds add up to `seconds`
};

// Returns intervals of `width` seconds for a lane's spans, each with the share of it in which the
// work runs. Intervals in which it does not run are left out.
std::vector<LaneSpan> InIntervals(const std::vector<LaneSpan>& spans, double width);

// Returns the lanes of a step whose instructions run at `times`: those that compute in the order of
// LaneKind, then communication by stream and operation, then kExposed if anything communicates.
// Kinds of work that do not occur have no lane. The seconds of kExposed are those of OverlapOf.
//
// A lane with more than `max_spans` spans has so many equal intervals of the step instead
// (InIntervals).
std::vector<StepLane> LanesOf(const Program& program, const Table<InstructionId, TimeSpan>& times,
                              int max_spans = 300);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_VIEW_STEP_LANES_H_
