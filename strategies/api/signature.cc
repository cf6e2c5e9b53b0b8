#include "strategies/api/signature.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera::strategy {
namespace {

std::vector<std::string> LayoutsIn(absl::string_view text) {
  std::vector<std::string> layouts;
  for (const absl::string_view part : absl::StrSplit(text, ", ", absl::SkipEmpty())) {
    // The unit of a layout, as the 128 in S(0, 128), is a part of its own.
    if (absl::ascii_isupper(part[0]) || layouts.empty()) {
      layouts.emplace_back(part);
    } else {
      absl::StrAppend(&layouts.back(), ", ", part);
    }
  }
  return layouts;
}

}  // namespace

Signature ParseSignature(absl::string_view text) {
  const size_t arrow = text.find("->");
  Signature signature;
  signature.text = std::string(text);
  signature.inputs = LayoutsIn(absl::StripAsciiWhitespace(text.substr(0, arrow)));
  if (arrow != absl::string_view::npos) {
    signature.outputs = LayoutsIn(absl::StripAsciiWhitespace(text.substr(arrow + 2)));
  }
  return signature;
}

int SplitDimension(absl::string_view layout) {
  int dimension = -1;
  const bool splits = absl::ConsumePrefix(&layout, "S(") &&
                      absl::SimpleAtoi(layout.substr(0, layout.find_first_of(",)")), &dimension);
  return splits ? dimension : -1;
}

bool IsPartial(absl::string_view layout) { return absl::StartsWith(layout, "P"); }

}  // namespace tessera::strategy
