// A completed Plan by layer, as a map of coloured cells.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_CHARTS_PLAN_MAP_H_
#define TESSERA_TOOLS_REPORT_CHARTS_PLAN_MAP_H_

#include <string>

#include "tools/report/view/plan_rows.h"

namespace tessera {

// Returns the settings of the Plan in one line: its mesh, micro-batches, logits, passes.
std::string PlanSettingsHtml(const PlanRows& plan);

// Returns the map of the strategy of this label.
std::string PlanMapHtml(const std::string& label, const PlanRows& plan);

// Returns the legend of all maps.
std::string PlanMapLegend();

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_CHARTS_PLAN_MAP_H_
