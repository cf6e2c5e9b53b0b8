#include "tests/plans/random/outcome.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace tessera {
namespace {

// Replaces texts in quotes, and in brackets, which hold shapes and lists.
std::string WithoutQuotes(absl::string_view text) {
  std::string result;
  char end = 0;
  for (const char c : text) {
    if (end != 0) {
      if (c == end) end = 0;
      continue;
    }
    if (c == '\'' || c == '"') {
      end = c;
      result += '_';
    } else if (c == '[') {
      end = ']';
      result += '_';
    } else {
      result += c;
    }
  }
  return result;
}

bool IsSubject(absl::string_view word) {
  const absl::string_view inner = absl::StripSuffix(word, ".");
  return inner.find('.') != absl::string_view::npos && inner.find('/') == absl::string_view::npos;
}

}  // namespace

absl::string_view NameOf(OutcomeKind kind) {
  switch (kind) {
    case OutcomeKind::kRight:
      return "right";
    case OutcomeKind::kRefused:
      return "refused";
    case OutcomeKind::kWrong:
      return "wrong";
    case OutcomeKind::kNan:
      return "NaN";
    case OutcomeKind::kMemory:
      return "memory check";
    case OutcomeKind::kInternal:
      return "internal error";
    case OutcomeKind::kCrash:
      return "crash";
    case OutcomeKind::kHang:
      return "hang";
  }
  return "";
}

std::string Generalized(absl::string_view message) {
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(WithoutQuotes(message), ' ')) {
    // The layouts of a signature.
    if (absl::StartsWith(word, "S(") || absl::StartsWith(word, "P(")) continue;
    absl::string_view bare = word;
    while (!bare.empty() && absl::ascii_ispunct(bare.back()) && bare.back() != '_') {
      bare.remove_suffix(1);
    }
    if (bare == "B" || bare == "P" || bare == "->") continue;
    if (IsSubject(bare)) {
      words.push_back("PATH");
      continue;
    }
    std::string kept;
    for (const char c : word) {
      if (!absl::ascii_isdigit(c)) kept += c;
    }
    words.push_back(kept);
  }
  std::string text = absl::StrJoin(words, " ");
  // Lists differ in their lengths.
  while (absl::StrReplaceAll({{"PATH PATH", "PATH"}, {"_, _", "_"}, {"  ", " "}}, &text) > 0) {
  }
  return text.substr(0, 160);
}

}  // namespace tessera
