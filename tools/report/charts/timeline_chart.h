// When each kind of a step's work runs: a row for each lane.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_CHARTS_TIMELINE_CHART_H_
#define TESSERA_TOOLS_REPORT_CHARTS_TIMELINE_CHART_H_

#include <string>

#include "tools/report/charts/axis.h"
#include "tools/report/step_view.h"

namespace tessera {

// Returns a figure for the strategy of this label, on an axis of seconds.
std::string TimelineHtml(const std::string& label, const StepView& view, const Axis& axis);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_CHARTS_TIMELINE_CHART_H_
