// "Did you mean ...?"
#ifndef TESSERA_CORE_TEXT_NEAREST_NAME_H_
#define TESSERA_CORE_TEXT_NEAREST_NAME_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera {

// The candidate that a misspelt name was most likely meant to be, or "" if none is near. One that
// the name is a part of ("layers", of "model.layers") is near. None is near a name of more than 128
// letters.
// Thread safety: a pure function.
std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates);

// "; did you mean 'model.layers'?", or "".
std::string DidYouMean(absl::string_view name, absl::Span<const std::string> candidates);

}  // namespace tessera

#endif  // TESSERA_CORE_TEXT_NEAREST_NAME_H_
