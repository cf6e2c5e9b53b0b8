// The tables that a comparison prints, in 80 columns.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_COMPARE_COMPARISON_TABLE_H_
#define TESSERA_TOOLS_COMPARE_COMPARISON_TABLE_H_

#include <string>

#include "tools/compare/comparison.h"

namespace tessera {

// Returns a table with two columns for each strategy, estimated and measured. If a strategy trains
// differently or has failed, it has no times: they are not those of the same work.
std::string ComparisonTable(const Comparison& comparison);

// Returns the table of strategies whose prices were measured: the step times that they predict.
std::string PredictionTable(const Comparison& comparison);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_COMPARISON_TABLE_H_
