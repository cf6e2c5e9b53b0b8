// The live bytes of a step over time, by category, as stacked areas.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_CHARTS_MEMORY_CHART_H_
#define TESSERA_TOOLS_REPORT_CHARTS_MEMORY_CHART_H_

#include <string>

#include "tools/report/charts/axis.h"
#include "tools/report/step_view.h"

namespace tessera {

// Returns a figure for the strategy of this label. `id` is part of the ids of its elements, and
// must differ from those of other charts of the page.
std::string MemoryChartHtml(const std::string& id, const std::string& label,
                            const LiveMemory& memory, const Axis& seconds, const Axis& bytes);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_CHARTS_MEMORY_CHART_H_
