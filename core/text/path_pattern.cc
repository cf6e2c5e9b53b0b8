#include "core/text/path_pattern.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

// Returns whether `text` matches `pattern`, in which "*" stands for any characters.
bool PartMatches(absl::string_view pattern, absl::string_view text) {
  size_t p = 0, t = 0;
  size_t star = absl::string_view::npos, resume = 0;  // the last "*", and where its rest was tried
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return absl::c_all_of(pattern.substr(p), [](char c) { return c == '*'; });
}

// Returns whether the first parts of a path match all parts of a pattern.
bool PartsMatch(absl::Span<const std::string> pattern, absl::Span<const absl::string_view> path) {
  if (pattern.size() > path.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (!PartMatches(pattern[i], path[i])) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<PathPattern> PathPattern::Parse(absl::string_view text) {
  PathPattern pattern;
  for (absl::string_view alternative : absl::StrSplit(text, '|')) {
    if (alternative.empty()) {
      return absl::InvalidArgumentError(
          text.empty() ? std::string("an empty path")
                       : absl::StrCat("path ", Quote(text), " has an empty alternative"));
    }
    if (alternative.find('*') == absl::string_view::npos) {
      pattern.paths_.push_back(std::string(alternative.data(), alternative.size()));
    } else {
      pattern.wildcards_.push_back(absl::StrSplit(alternative, '.'));
    }
  }
  return pattern;
}

bool PathPattern::Matches(absl::string_view path) const {
  if (absl::c_linear_search(paths_, path)) return true;
  if (wildcards_.empty()) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '.');
  return absl::c_any_of(wildcards_, [&](const std::vector<std::string>& wildcard) {
    return wildcard.size() == parts.size() && PartsMatch(wildcard, parts);
  });
}

size_t PathPattern::MatchingScope(absl::string_view path) const {
  size_t shortest = absl::string_view::npos;
  for (const std::string& exact : paths_) {
    const bool scope = absl::string_view(path).substr(0, exact.size()) == exact &&
                       (path.size() == exact.size() || path[exact.size()] == '.');
    if (scope) shortest = std::min(shortest, exact.size());
  }
  if (!wildcards_.empty()) {
    const std::vector<absl::string_view> parts = absl::StrSplit(path, '.');
    for (const std::vector<std::string>& wildcard : wildcards_) {
      if (!PartsMatch(wildcard, parts)) continue;
      const absl::string_view last = parts[wildcard.size() - 1];
      shortest = std::min(shortest, static_cast<size_t>(last.data() + last.size() - path.data()));
    }
  }
  return shortest == absl::string_view::npos ? 0 : shortest;
}

}  // namespace tessera
