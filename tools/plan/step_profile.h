// Where the time of a predicted step goes.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_PLAN_STEP_PROFILE_H_
#define TESSERA_TOOLS_PLAN_STEP_PROFILE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/cost/prices/price_source.h"
#include "tools/plan/cell.h"

namespace tessera {

// The seconds of a layer, or of layers that share a name, by what is computed.
struct LayerTime {
  std::string layer;
  int count = 1;  // layers that share the name
  double forward = 0, recomputation = 0, backward = 0, update = 0;
  double exposed = 0;  // communication of its parameters and activations beside which nothing runs

  double seconds() const { return forward + recomputation + backward + update + exposed; }
};

// Instructions that do the same: those of one operation, of one kernel request, or of one
// collective request.
struct WorkTime {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;  // of all calls; of collectives, from start to end
  double exposed = 0;  // of collectives
  double flops = 0, bytes = 0;
  PriceSource source = PriceSource::kDescribed;  // of the calls that take longest
};

// Collectives of equal layers, beside which at times nothing is computed.
struct CollectiveWait {
  std::string path;       // a pattern: "blocks.*.ln1.weight.group.all_gather"
  std::string operation;  // "all-gather of 12.3M f32 over shard"
  int64_t calls = 0;
  double seconds = 0, exposed = 0;
  // Patterns of what ends last before it begins, and of what begins when it ends; "": nothing.
  std::string waits_for, delays;
};

struct StepProfile {
  double step_seconds = 0;
  // The seconds in which something is computed, and those of instructions that compute; the latter
  // are more if streams compute at the same time.
  double computing_seconds = 0, computation_seconds = 0;
  double exposed_seconds = 0;
  // Each with the longest first.
  std::vector<LayerTime> layers;
  std::vector<WorkTime> kinds;        // by operation
  std::vector<WorkTime> requests;     // by kernel request and pattern of paths
  std::vector<WorkTime> collectives;  // by request
  std::vector<CollectiveWait> waits;  // by exposed time
};

StepProfile ProfileOf(const Cell& cell);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_STEP_PROFILE_H_
