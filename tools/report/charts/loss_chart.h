// Loss curves of several strategies over each other.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_CHARTS_LOSS_CHART_H_
#define TESSERA_TOOLS_REPORT_CHARTS_LOSS_CHART_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct LossCurve {
  std::string label;
  int64_t first_step = 1;      // that of losses[0]
  std::vector<double> losses;  // by step; values that are not finite are left out
};

// Returns a figure; "" if no curve has a finite loss.
std::string LossChartHtml(const std::vector<LossCurve>& curves);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_CHARTS_LOSS_CHART_H_
