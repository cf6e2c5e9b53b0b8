// Plans of units in modes, lowered by the host, each once.
#ifndef TESSERA_STRATEGIES_OSDP_LOWERED_H_
#define TESSERA_STRATEGIES_OSDP_LOWERED_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/osdp/units.h"

namespace tessera::strategy::osdp {

struct Candidate {
  std::vector<Mode> modes;  // by unit
  Settings settings;
  Plan plan;
  StepCost cost;
  std::vector<LoweredPlans::Section> sections;
};

// Not thread-safe.
class Candidates {
 public:
  // The arguments must outlive the object.
  Candidates(const ModelInfo& model, const std::vector<Unit>& units, Host& host)
      : model_(model), units_(units), host_(host) {}

  // Returns the candidate; the pointer is valid as long as the object. InvalidArgument if the Plan
  // cannot be run. `sections` are there if they were asked for when it was lowered.
  absl::StatusOr<const Candidate*> Lower(const std::vector<Mode>& modes, const Settings& settings,
                                         bool sections = false);

  // Returns the fastest one that meets the limit (0: none), or null.
  const Candidate* Fastest(int64_t limit) const;
  // Returns the one that needs the least memory, or null.
  const Candidate* Smallest() const;
  int size() const { return static_cast<int>(candidates_.size()); }

 private:
  const ModelInfo& model_;
  const std::vector<Unit>& units_;
  Host& host_;
  std::deque<Candidate> candidates_;
};

}  // namespace tessera::strategy::osdp

#endif  // TESSERA_STRATEGIES_OSDP_LOWERED_H_
