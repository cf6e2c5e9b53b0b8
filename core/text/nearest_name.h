// Suggestions for misspelt names: "did you mean ...?".
#ifndef TESSERA_CORE_TEXT_NEAREST_NAME_H_
#define TESSERA_CORE_TEXT_NEAREST_NAME_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera {

// Returns the candidate that is nearest to a misspelt name, or "" if none is near. A candidate that
// ends with the name after a dot ("model.layers" for "layers") is near, and so is one to which the
// name only adds words ("unit" for "unit_mb"). No candidate is near a name
// of more than 128 letters. Thread safety: a pure function.
std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates);

// Returns "; did you mean 'model.layers'?", or "" if none is near.
std::string DidYouMean(absl::string_view name, absl::Span<const std::string> candidates);

}  // namespace tessera

#endif  // TESSERA_CORE_TEXT_NEAREST_NAME_H_
