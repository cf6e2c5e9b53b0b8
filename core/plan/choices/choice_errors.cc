#include "core/plan/choices/choice_errors.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/text/nearest_name.h"
#include "core/text/quote.h"

namespace tessera {

bool HasOtherGraphs(const Stage& stage, absl::Span<const Graph> graphs) {
  return absl::c_any_of(stage.parts(), [&](const PlanPart& part) {
    return !part.fingerprint().empty() && absl::c_none_of(graphs, [&](const Graph& graph) {
      return graph.name() == part.graph();
    });
  });
}

absl::Status UnmatchedPath(const PathPattern& pattern, absl::string_view kind,
                           const std::vector<std::string>& paths, absl::Span<const Graph> graphs) {
  const std::string near =
      pattern.has_wildcards() ? "" : DidYouMean(pattern.paths().front(), paths);
  const auto quoted = [](std::string* out, const Graph& graph) {
    absl::StrAppend(out, "'", graph.name(), "'");
  };
  return absl::InvalidArgumentError(absl::StrCat(
      "no ", kind, " of the graphs ", absl::StrJoin(graphs, ", ", quoted), " matches", near));
}

absl::Status InChoice(absl::string_view choice, absl::string_view path,
                      const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(), absl::StrCat("the Plan's ", choice, " ", Quote(path), ": ", status.message()));
}

}  // namespace tessera
