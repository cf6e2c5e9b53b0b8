#include "tests/plans/random/draw_layouts.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace tessera {
namespace {

// Returns whether a value must arrive as a partial maximum, minimum or log-sum-exp, which only few
// operators make.
bool TakesRarePartials(absl::string_view signature) {
  const absl::string_view inputs = signature.substr(0, signature.find(" -> "));
  return absl::StrContains(inputs, "P(");
}

// Returns one of the operator's signatures, most often one that fits anywhere.
std::string DeclaredSignature(const Subjects::Operator& op, Random& random) {
  std::vector<std::string> common;
  for (const std::string& signature : op.signatures) {
    if (!TakesRarePartials(signature)) common.push_back(signature);
  }
  return common.empty() || random.Percent(3) ? random.Of(op.signatures) : random.Of(common);
}

// Sizes of meshes. Most have two axes or more, and few ranks, because each rank takes time.
const std::vector<std::vector<int>>& Meshes() {
  static const auto* const meshes = new std::vector<std::vector<int>>{
      {2},       {2},       {3},       {4},       {2, 2},       {2, 2},    {2, 2},
      {2, 2},    {2, 2},    {2, 2},    {2, 2},    {2, 3},       {3, 2},    {4, 2},
      {2, 1},    {1, 2},    {5},       {3, 3},    {1},          {2, 2, 2}, {2, 2, 2},
      {1, 2, 2}, {2, 2, 1}, {2, 1, 2}, {2, 2, 3}, {2, 1, 2, 2},
  };
  return *meshes;
}

}  // namespace

int DrawMesh(Random& random, Stage& stage) {
  int ranks = 1;
  char name = 'a';
  for (const int size : random.Of(Meshes())) {
    MeshAxis& axis = *stage.add_mesh();
    axis.set_name(std::string(1, name++));
    axis.set_size(size);
    ranks *= size;
  }
  return ranks;
}

Axes SomeOf(Axes axes, Random& random) {
  random.Shuffle(axes);
  axes.resize(1 + random.Below(static_cast<int64_t>(axes.size())));
  return axes;
}

std::string DrawLayout(const Shape& shape, const Axes& axes, Random& random) {
  if (axes.empty() || shape.empty()) return "B";
  std::vector<std::string> clauses;
  for (const std::string& axis : SomeOf(axes, random)) {
    const int64_t dimension = random.Below(static_cast<int64_t>(shape.size()));
    const int64_t unit = random.Percent(70) ? 1 : 1 + random.Below(shape[dimension]);
    clauses.push_back(unit == 1 ? absl::StrCat(axis, ": S(", dimension, ")")
                                : absl::StrCat(axis, ": S(", dimension, ", ", unit, ")"));
  }
  return absl::StrJoin(clauses, ", ");
}

std::string DrawSignature(const Subjects::Operator& op, const Axes& axes, const Axes& flat_axes,
                          Random& random) {
  std::vector<std::string> clauses;
  for (const std::string& axis : SomeOf(axes, random)) {
    const bool flat = absl::c_linear_search(flat_axes, axis) && random.Percent(40);
    const bool broadcast = op.signatures.empty() || random.Percent(20);
    clauses.push_back(absl::StrCat(
        axis, ": ", flat ? "flat" : (broadcast ? "B" : DeclaredSignature(op, random))));
  }
  return absl::StrJoin(clauses, "; ");
}

std::string DrawInvalidSignature(const Subjects::Operator& op, const Axes& axes, Random& random) {
  const std::vector<std::string> layouts = {"S(0)", "S(1)", "S(2)",   "S(0, 2)",
                                            "B",    "P",    "P(max)", "P(lse)"};
  const std::string& signature = random.Of(op.signatures);
  const std::string& from = random.Of(layouts);
  const std::string& to = random.Of(layouts);
  const std::string& axis = random.Of(axes);
  return absl::StrCat(axis, ": ", absl::StrReplaceAll(signature, {{from, to}}));
}

}  // namespace tessera
