// Paths of equal units as one text.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_FIGURES_UNIT_LABELS_H_
#define TESSERA_TOOLS_FIGURES_UNIT_LABELS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tessera {

// Returns whether two paths are equal but for one part between dots, which is a number in both.
bool DifferInOneNumber(absl::string_view a, absl::string_view b);

// Returns "blocks.{0-3, 5}" for the paths of at least two units, each of which must differ from the
// first one in the same number; "blocks.*" if these are `all` that there are.
std::string LabelOfUnits(const std::vector<std::string>& paths, bool all);

}  // namespace tessera

#endif  // TESSERA_TOOLS_FIGURES_UNIT_LABELS_H_
