// A report about strategies on one model, as one HTML page.
#ifndef TESSERA_TOOLS_REPORT_REPORT_H_
#define TESSERA_TOOLS_REPORT_REPORT_H_

#include <string>

#include "tools/report/report_data.h"

namespace tessera {

// Returns the page, which needs no network and no script: charts are inline SVG, with tables beside
// them. All texts of `data` are escaped. The same data give the same bytes. A strategy takes at
// most about 300 KB, whatever the size of its model; what has no room is counted.
//
// Thread safety: a pure function.
std::string ReportHtml(const ReportData& data);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_REPORT_H_
