// Errors in the choices of a Plan: a path that matches nothing, or a value that does not fit.
#ifndef TESSERA_CORE_PLAN_CHOICES_CHOICE_ERRORS_H_
#define TESSERA_CORE_PLAN_CHOICES_CHOICE_ERRORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"
#include "core/text/path_pattern.h"

namespace tessera {

// Returns whether the stage was completed for other Graphs as well. If so, its choices may match
// nothing in `graphs`.
bool HasOtherGraphs(const Stage& stage, absl::Span<const Graph> graphs);

// Returns InvalidArgument: no `kind` of the Graphs matches. Suggests one of `paths` that is
// similar.
absl::Status UnmatchedPath(const PathPattern& pattern, absl::string_view kind,
                           const std::vector<std::string>& paths, absl::Span<const Graph> graphs);

// Adds the kind and the path of the choice to an error: "the Plan's store 'wte.weight': ...".
absl::Status InChoice(absl::string_view choice, absl::string_view path, const absl::Status& status);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_CHOICES_CHOICE_ERRORS_H_
