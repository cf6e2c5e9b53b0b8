// The results of a comparison as the contents of a report.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_COMPARE_COMPARISON_REPORT_H_
#define TESSERA_TOOLS_COMPARE_COMPARISON_REPORT_H_

#include "tools/compare/comparison.h"
#include "tools/compare/flags.h"
#include "tools/report/report_data.h"

namespace tessera {

ReportData ComparisonReport(const CompareCommandLine& line, const Comparison& comparison);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_COMPARISON_REPORT_H_
