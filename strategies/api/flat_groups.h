// Divides the parameters of a model into groups that can be stored flat.
#ifndef TESSERA_STRATEGIES_API_FLAT_GROUPS_H_
#define TESSERA_STRATEGIES_API_FLAT_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "strategies/api/model_info.h"

namespace tessera::strategy {

// Parameters that can be one group of a Plan. They have the same dtype, and all or none of them are
// trained, because a group is stored as one array.
struct FlatGroup {
  std::vector<std::string> parameters;  // paths
  int64_t bytes = 0;
  bool root = false;  // they lie in no scope
};

// Divides all parameters into groups: first one for each scope, then the roots, of the parameters
// that lie in none. Scopes are the model's blocks, or those that `pattern` names, if it is not ""
// (see ScopeThatMatches). A group also gets the scopes that follow it in the model, while it has at
// most `max_bytes`. Thread safety: a pure function.
std::vector<FlatGroup> DivideIntoGroups(const ModelInfo& model, absl::string_view pattern = "",
                                        int64_t max_bytes = 0);

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_API_FLAT_GROUPS_H_
