// The measurements of a comparison as JSON, for other programs.
//
// Thread safety: a pure function.
#ifndef TESSERA_TOOLS_COMPARE_COMPARISON_JSON_H_
#define TESSERA_TOOLS_COMPARE_COMPARISON_JSON_H_

#include <string>

#include "tools/compare/comparison.h"

namespace tessera {

// Returns one JSON object, whose times are in seconds and sizes in bytes. json.md documents every
// field.
std::string ComparisonJson(const Comparison& comparison);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_COMPARISON_JSON_H_
