// Patterns by which Plans and strategies name states, inputs, operators and scopes.
#ifndef TESSERA_CORE_TEXT_PATH_PATTERN_H_
#define TESSERA_CORE_TEXT_PATH_PATTERN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera {

// A pattern: alternatives separated by "|". In each, "*" stands for any number of characters
// between two dots: "blocks.*.mlp.fc.*|wte.weight".
//
// Thread safety: immutable after construction.
class PathPattern {
 public:
  // InvalidArgument if an alternative is empty.
  static absl::StatusOr<PathPattern> Parse(absl::string_view text);

  // Returns whether an alternative matches all of the path.
  bool Matches(absl::string_view path) const;
  // Returns the length of the shortest scope of `path`, or of `path` itself, that matches; 0 if
  // none does. For example, "blocks.*" matches 8 characters of "blocks.1.ln1.bias".
  size_t MatchingScope(absl::string_view path) const;

  // paths() returns the alternatives without "*", each of which matches one path.
  absl::Span<const std::string> paths() const { return paths_; }
  bool has_wildcards() const { return !wildcards_.empty(); }

 private:
  std::vector<std::string> paths_;
  std::vector<std::vector<std::string>> wildcards_;  // parts between dots
};

}  // namespace tessera

#endif  // TESSERA_CORE_TEXT_PATH_PATTERN_H_
