// A strategy's reasons for its Plan (strategy::Explanation): its bound, and what else it could have
// decided.
//
// Thread safety: pure functions. Texts of an explanation are those of a plugin, which may be any;
// whoever shows them makes them printable.
#ifndef TESSERA_TOOLS_FIGURES_DECISIONS_H_
#define TESSERA_TOOLS_FIGURES_DECISIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/proto/strategy.pb.h"

namespace tessera {

// A choice that was not made, and the changes that it would bring.
struct ShownAlternative {
  std::string choice;
  std::string step;      // of its time: "+0.12 ms"
  std::string peak;      // of a rank's memory: "-1.20 MiB"
  bool lowered = false;  // the changes are exact; else they are estimates

  friend bool operator==(const ShownAlternative& a, const ShownAlternative& b) = default;
};

// A decision about one subject, or about neighbouring ones that are decided equally.
struct ShownDecision {
  std::string subject;  // "blocks.{0-11}"
  int64_t subjects = 1;
  std::string choice;
  std::vector<ShownAlternative> alternatives = {};
};

// Returns the decisions, in their order. Neighbours whose paths differ in one number are one, if
// they are equal in all that is shown of them.
std::vector<ShownDecision> ShownDecisions(const strategy::Explanation& explanation);

// Returns the part of the step's time by which it may exceed the least that is possible by the
// bound: 0.012. 0 if the strategy knows no bound.
double GapToBound(const strategy::Explanation& explanation);

// Returns how far the step is from the bound: "within 1.2 % of a bound of 8.01 s"; "" if the
// strategy knows none.
std::string BoundText(const strategy::Explanation& explanation);

// Returns whether the strategy gave any reason.
bool HasReasons(const strategy::Explanation& explanation);

}  // namespace tessera

#endif  // TESSERA_TOOLS_FIGURES_DECISIONS_H_
