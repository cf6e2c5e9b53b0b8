#include "core/layout/layout_text.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

constexpr size_t kMaxTextLength = 4096;

absl::Status CheckLength(absl::string_view text) {
  if (text.size() <= kMaxTextLength) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a layout of ", text.size(), " characters; at most ", kMaxTextLength, " are possible"));
}

// Splits at commas outside of parentheses. An empty text has no elements.
std::vector<absl::string_view> SplitAtCommas(absl::string_view text) {
  std::vector<absl::string_view> elements;
  if (absl::StripAsciiWhitespace(text).empty()) return elements;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] == ',' && depth == 0) {
      elements.push_back(absl::StripAsciiWhitespace(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  elements.push_back(absl::StripAsciiWhitespace(text.substr(begin)));
  return elements;
}

// Returns the text between "NAME(" and ")".
std::optional<absl::string_view> Argument(absl::string_view text, absl::string_view name) {
  if (!absl::ConsumePrefix(&text, name)) return std::nullopt;
  text = absl::StripLeadingAsciiWhitespace(text);
  if (!absl::ConsumePrefix(&text, "(") || !absl::ConsumeSuffix(&text, ")")) return std::nullopt;
  return absl::StripAsciiWhitespace(text);
}

// Parses "DIM" or "DIM, UNIT".
std::optional<AxisLayout> ParseSplit(absl::string_view argument) {
  const std::vector<absl::string_view> numbers = SplitAtCommas(argument);
  int dim = 0;
  int64_t unit = 1;
  if (numbers.empty() || numbers.size() > 2) return std::nullopt;
  if (!absl::SimpleAtoi(numbers[0], &dim) || dim < 0 || dim > kMaxSplitDim) return std::nullopt;
  if (numbers.size() == 2 &&
      (!absl::SimpleAtoi(numbers[1], &unit) || unit < 1 || unit > kMaxSplitUnit)) {
    return std::nullopt;
  }
  return AxisLayout::Split(dim, unit);
}

// Parses the name of a reduction.
std::optional<AxisLayout> ParsePartial(absl::string_view argument) {
  if (argument == "sum") return AxisLayout::Partial(AxisLayout::Reduction::kSum);
  if (argument == "max") return AxisLayout::Partial(AxisLayout::Reduction::kMax);
  if (argument == "min") return AxisLayout::Partial(AxisLayout::Reduction::kMin);
  if (argument == "lse") return AxisLayout::Partial(AxisLayout::Reduction::kLogSumExp);
  return std::nullopt;
}

absl::StatusOr<std::vector<AxisLayout>> ParseAxisLayouts(absl::string_view text) {
  std::vector<AxisLayout> layouts;
  for (absl::string_view element : SplitAtCommas(text)) {
    ASSIGN_OR_RETURN(const AxisLayout layout, ParseAxisLayout(element));
    layouts.push_back(layout);
  }
  return layouts;
}

}  // namespace

absl::StatusOr<AxisLayout> ParseAxisLayout(absl::string_view text) {
  RETURN_IF_ERROR(CheckLength(text));
  text = absl::StripAsciiWhitespace(text);
  std::optional<AxisLayout> layout;
  if (text == "B") layout = AxisLayout::Broadcast();
  if (text == "P") layout = AxisLayout::Partial();
  if (const auto argument = Argument(text, "S")) layout = ParseSplit(*argument);
  if (const auto argument = Argument(text, "P")) layout = ParsePartial(*argument);
  if (layout.has_value()) return *layout;
  return absl::InvalidArgumentError(
      absl::StrCat(Quote(text), " is no layout; one is B, S(dimension), S(dimension, unit), P, ",
                   "P(max), P(min) or P(lse)"));
}

absl::StatusOr<Signature> ParseSignature(absl::string_view text) {
  RETURN_IF_ERROR(CheckLength(text));
  const size_t arrow = text.find("->");
  if (arrow == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quote(text), " is no signature; one looks like 'S(0), B -> S(0)'"));
  }
  Signature signature;
  ASSIGN_OR_RETURN(signature.inputs, ParseAxisLayouts(text.substr(0, arrow)));
  ASSIGN_OR_RETURN(signature.outputs, ParseAxisLayouts(text.substr(arrow + 2)));
  return signature;
}

absl::StatusOr<MeshLayout> ParseMeshLayout(absl::string_view text, const Mesh& mesh) {
  RETURN_IF_ERROR(CheckLength(text));
  MeshLayout layout(mesh.num_axes());
  if (absl::StripAsciiWhitespace(text) == "B") return layout;
  std::vector<bool> named(mesh.num_axes(), false);
  for (absl::string_view clause : SplitAtCommas(text)) {
    const size_t colon = clause.find(':');
    if (colon == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quote(clause), " in layout ", Quote(text),
                       " names no axis; a clause looks like 'data: S(0)'"));
    }
    const absl::string_view name = absl::StripAsciiWhitespace(clause.substr(0, colon));
    ASSIGN_OR_RETURN(const int axis, mesh.FindAxis(name));
    if (named[axis]) {
      return absl::InvalidArgumentError(
          absl::StrCat("layout ", Quote(text), " names axis '", name, "' twice"));
    }
    named[axis] = true;
    ASSIGN_OR_RETURN(const AxisLayout along, ParseAxisLayout(clause.substr(colon + 1)));
    layout = layout.With(axis, along);
  }
  return layout;
}

}  // namespace tessera
