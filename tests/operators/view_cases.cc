#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/operators/case_list.h"

namespace tessera::operator_tests {
namespace {

using Ints = std::vector<int64_t>;

void AddReshapeCases(std::vector<Case>& cases) {
  const std::pair<Shape, Ints> reshapes[] = {
      {{2, 6}, {3, 4}},       {{12}, {2, 3, 2}},
      {{}, {1, 1}},           {{1}, {}},
      {{2, 3}, {2, 1, 3}},    {{2, 1, 3}, {6}},
      {{0, 3}, {3, 0}},       {{4, 6}, {4, 2, 3}},
      {{2, 3, 4}, {2, 12}},   {{5}, {5}},
      {{6, 4}, {2, 3, 4}},    {{2, 3, 4, 5}, {6, 20}},
      {{1, 7, 1}, {7, 1, 1}}, {{3, 2, 4, 5}, {3, 40}},
  };
  for (const auto& [from, to] : reshapes) {
    cases.push_back(MakeCase("reshape", {Normal(from)}, {{"shape", to}}));
  }
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kF32) continue;
    cases.push_back(
        MakeCase("reshape", {Integers(dtype, {3, 4}, 0, 100)}, {{"shape", Ints{2, 6}}}));
  }
}

void AddTransposeCases(std::vector<Case>& cases) {
  const std::pair<Shape, Ints> transposes[] = {
      {{}, {}},
      {{5}, {0}},
      {{3, 5}, {1, 0}},
      {{3, 5}, {0, 1}},
      {{2, 3, 4}, {0, 2, 1}},
      {{2, 3, 4}, {1, 0, 2}},
      {{2, 3, 4}, {1, 2, 0}},
      {{2, 3, 4}, {2, 0, 1}},
      {{2, 3, 4}, {2, 1, 0}},
      {{2, 3, 4, 5}, {0, 2, 1, 3}},
      {{2, 1, 4, 5}, {3, 1, 0, 2}},
      {{3, 0}, {1, 0}},
  };
  for (const auto& [shape, permutation] : transposes) {
    cases.push_back(MakeCase("transpose", {Normal(shape)}, {{"permutation", permutation}}));
  }
  cases.push_back(
      MakeCase("transpose", {Integers(DType::kU8, {3, 4}, 0, 100)}, {{"permutation", Ints{1, 0}}}));
}

void AddSplitCases(std::vector<Case>& cases) {
  const auto add = [&](const Shape& shape, int64_t axis, Ints sizes) {
    cases.push_back(
        MakeCase("split", {Normal(shape)}, {{"axis", axis}, {"sizes", std::move(sizes)}}));
  };
  add({5}, 0, {2, 3});
  add({5}, 0, {5});
  add({5}, 0, {1, 1, 3});
  add({6, 4}, 0, {2, 2, 2});
  add({3, 7}, 1, {3, 4});
  add({2, 6, 3}, 1, {1, 2, 3});
  add({2, 3, 9}, 2, {3, 3, 3});
  add({4, 2}, 0, {4, 0});
  add({0, 4}, 1, {1, 3});
}

void AddExpandCases(std::vector<Case>& cases) {
  const std::pair<Shape, Ints> expansions[] = {
      {{}, {}},         {{}, {3}},
      {{1}, {4}},       {{4}, {4}},
      {{4}, {3, 4}},    {{3, 1}, {3, 4}},
      {{1, 4}, {3, 4}}, {{3, 1}, {2, 3, 4}},
      {{1, 1}, {2, 3}}, {{2, 1, 4}, {2, 3, 4}},
      {{1}, {0}},       {{1, 3}, {0, 3}},
  };
  for (const auto& [from, to] : expansions) {
    cases.push_back(MakeCase("expand", {Normal(from)}, {{"shape", to}}));
  }
}

void AddConcatCases(std::vector<Case>& cases) {
  const auto add = [&](const std::vector<Shape>& shapes, int64_t axis) {
    std::vector<CaseInput> inputs;
    for (const Shape& shape : shapes) inputs.push_back(Normal(shape));
    cases.push_back(MakeCase("concat", std::move(inputs), {{"axis", axis}}));
  };
  add({{3}, {2}}, 0);
  add({{3}}, 0);
  add({{1}, {1}, {1}}, 0);
  add({{2, 3}, {4, 3}}, 0);
  add({{2, 3}, {2, 1}, {2, 4}}, 1);
  add({{2, 3, 2}, {2, 5, 2}}, 1);
  add({{2, 3, 2}, {2, 3, 1}}, 2);
  add({{0, 3}, {2, 3}}, 0);
  cases.push_back(
      MakeCase("concat", {Integers(DType::kI32, {2, 2}, 0, 9), Integers(DType::kI32, {3, 2}, 0, 9)},
               {{"axis", int64_t{0}}}));
}

void AddZeroElsewhereCases(std::vector<Case>& cases) {
  const auto add = [&](CaseInput x, Shape shape, const Shape& start) {
    const Shape part = x.type.shape;
    cases.push_back(MakeCase("zero_elsewhere", absl::StrCat("at ", ShapeToString(start)),
                             {std::move(x)}, {{"shape", Ints(shape.begin(), shape.end())}}));
    if (part == shape) return;
    cases.back().regions = {{Region{start, shape}}, {Region{Shape(shape.size(), 0), shape}}};
  };
  add(Normal({}), {}, {});
  add(Normal({5}), {5}, {0});
  add(Normal({3}), {7}, {0});
  add(Normal({3}), {7}, {4});
  add(Normal({0}), {7}, {7});
  add(Normal({2, 5}), {4, 5}, {2, 0});
  add(Normal({4, 2}), {4, 5}, {0, 3});
  add(Normal({2, 3, 2}), {5, 4, 3}, {3, 1, 1});
  add(Normal({20, 300}), {64, 301}, {13, 1});
  for (DType dtype : kAllDTypes) {
    if (dtype != DType::kF32) add(Integers(dtype, {3, 5}, 1, 100), {7, 6}, {2, 1});
  }
}

}  // namespace

std::vector<Case> ViewCases() {
  std::vector<Case> cases;
  AddReshapeCases(cases);
  AddTransposeCases(cases);
  AddSplitCases(cases);
  AddExpandCases(cases);
  AddConcatCases(cases);
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{0}, Shape{17}, Shape{3, 5}, Shape{2, 3, 4, 5}, Shape{2, 0, 3},
        Shape{40, 1027}, Shape{130, 70}, Shape{4, 33, 6, 16}}) {
    cases.push_back(MakeCase("copy", {Normal(shape)}));
  }
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kF32) continue;
    cases.push_back(MakeCase("copy", {Integers(dtype, {5, 37}, 0, 100)}));
  }
  AddZeroElsewhereCases(cases);
  return cases;
}

}  // namespace tessera::operator_tests
