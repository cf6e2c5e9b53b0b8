// A strategy's decisions: a row for each subject, coloured by what was chosen.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_CHARTS_DECISION_MAP_H_
#define TESSERA_TOOLS_REPORT_CHARTS_DECISION_MAP_H_

#include <string>
#include <vector>

#include "tools/figures/decisions.h"

namespace tessera {

// Returns the map of the strategy of this label, and behind it a table of what other choices would
// change; "" if there are no decisions.
std::string DecisionMapHtml(const std::string& label, const std::vector<ShownDecision>& decisions);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_CHARTS_DECISION_MAP_H_
