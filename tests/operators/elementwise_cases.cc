#include <array>

#include "tests/operators/case_list.h"

namespace tessera::operator_tests {
namespace {

// Large enough that a kernel divides it between threads, and no multiple of a vector.
const Shape kLarge = {40, 1027};

std::vector<Shape> SomeShapes() {
  return {{}, {1}, {0}, {17}, {3, 5}, {2, 3, 4, 5}, {0, 4}, kLarge};
}

struct Pair {
  Shape a, b;
};

// numpy's broadcasting: missing dimensions, sizes of 1 on either side, on both, and between.
std::vector<Pair> BroadcastPairs() {
  return {
      {{}, {}},
      {{7}, {7}},
      {{3, 5}, {3, 5}},
      {{1}, {1}},
      {{0}, {0}},
      {{1}, {}},
      {{2, 3, 4}, {4}},
      {{4}, {2, 3, 4}},
      {{2, 3, 4}, {3, 1}},
      {{3, 1}, {2, 3, 4}},
      {{2, 3, 4}, {2, 1, 4}},
      {{2, 3, 4}, {2, 1, 1}},
      {{2, 3, 4}, {1, 3, 1}},
      {{2, 3, 4}, {}},
      {{}, {2, 3, 4}},
      {{3, 1}, {1, 5}},
      {{2, 1, 5, 1}, {3, 1, 4}},
      {{5, 0}, {1}},
      {{5, 0}, {5, 1}},
      {{1, 6}, {1, 6}},
      {{2, 2, 2, 2, 2}, {2, 1, 2, 1, 2}},
      {kLarge, kLarge},
      {kLarge, {1027}},
      {kLarge, {40, 1}},
      {{1027}, kLarge},
      {{8, 1, 33}, {8, 150, 33}},
  };
}

void AddBinaryCases(std::vector<Case>& cases) {
  for (const std::string op : {"add", "subtract", "multiply", "divide", "maximum", "minimum"}) {
    const bool divides = op == "divide", compares = op == "maximum" || op == "minimum";
    for (const Pair& pair : BroadcastPairs()) {
      if (compares) {
        cases.push_back(MakeCase(op, {Distinct(pair.a), Distinct(pair.b)}));
      } else {
        cases.push_back(
            MakeCase(op, {Normal(pair.a), divides ? AwayFromZero(pair.b) : Normal(pair.b)}));
      }
    }
    for (DType dtype : {DType::kI32, DType::kI64}) {
      for (const Pair& pair : std::vector<Pair>{{{5, 3}, {3}}, {{}, {}}, {{67}, {67}}}) {
        cases.push_back(MakeCase(op, {Integers(dtype, pair.a, -100, 100),
                                      Integers(dtype, pair.b, divides ? 1 : -100, 100)}));
      }
    }
    cases.push_back(SpecialCase(op, {Special({65}), Special({65})}));
    if (!compares) continue;
    const CaseInput small = Integers(DType::kF32, {50}, 0, 3);
    cases.push_back(MakeCase(op, "equal values", {small, small}));
    cases.back().smooth = false;
  }
}

void AddUnaryCases(std::vector<Case>& cases) {
  struct Function {
    const char* op;
    CaseInput (*input)(const Shape& shape);
  };
  const auto any = [](const Shape& shape) { return Normal(shape); };
  const auto wide = [](const Shape& shape) { return Normal(shape, 0, 4); };
  const auto positive = [](const Shape& shape) { return Uniform(shape, 0.3, 3); };
  const auto apart = [](const Shape& shape) { return AwayFromZero(shape); };
  const Function functions[] = {
      {"exp", wide},         {"log", positive}, {"sqrt", positive}, {"rsqrt", positive},
      {"reciprocal", apart}, {"negate", any},   {"square", any},    {"tanh", wide},
      {"sigmoid", wide},     {"relu", apart},
  };
  for (const Function& function : functions) {
    for (const Shape& shape : SomeShapes()) {
      cases.push_back(MakeCase(function.op, {function.input(shape)}));
    }
    cases.push_back(SpecialCase(function.op, {Special({65})}));
  }
  for (const Shape& shape : SomeShapes()) {
    cases.push_back(MakeCase("relu_grad", {Normal(shape), AwayFromZero(shape)}));
  }
  cases.push_back(
      MakeCase("relu_grad", "zeros", {Normal({50}), Integers(DType::kF32, {50}, -1, 2)}));
  for (const char* approximate : {"none", "tanh"}) {
    const Attributes attributes = {{"approximate", std::string(approximate)}};
    for (const Shape& shape : SomeShapes()) {
      cases.push_back(MakeCase("gelu", {Normal(shape, 0, 2)}, attributes));
      cases.push_back(MakeCase("gelu_grad", {Normal(shape), Normal(shape, 0, 2)}, attributes));
    }
    cases.push_back(MakeCase("gelu", "far from 0", {Normal({200}, 0, 30)}, attributes));
    cases.push_back(SpecialCase("gelu", {SomeNaN({50})}, attributes));
    cases.push_back(SpecialCase("gelu_grad", {Normal({50}), SomeNaN({50})}, attributes));
    cases.push_back(
        MakeCase("gelu_grad", "far from 0", {Normal({200}), Normal({200}, 0, 30)}, attributes));
  }
}

void AddSelectCases(std::vector<Case>& cases) {
  const std::array<Shape, 3> shapes[] = {
      {Shape{}, Shape{}, Shape{}},
      {Shape{7}, Shape{7}, Shape{7}},
      {Shape{3, 5}, Shape{3, 5}, Shape{3, 5}},
      {Shape{0}, Shape{0}, Shape{1}},
      {Shape{}, Shape{3, 5}, Shape{3, 5}},
      {Shape{3, 5}, Shape{}, Shape{5}},
      {Shape{3, 1}, Shape{}, Shape{2, 3, 4}},
      {Shape{4}, Shape{3, 1}, Shape{2, 1, 1}},
      {Shape{1, 6}, Shape{4, 1}, Shape{4, 6}},
      {kLarge, kLarge, kLarge},
      {kLarge, Shape{1027}, Shape{40, 1}},
      {Shape{40, 1}, kLarge, Shape{}},
  };
  for (const auto& [condition, a, b] : shapes) {
    cases.push_back(MakeCase("select", {Conditions(condition), Normal(a), Normal(b)}));
  }
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kF32) continue;
    cases.push_back(MakeCase("select", {Conditions({3, 1}), Integers(dtype, {3, 7}, 0, 100),
                                        Integers(dtype, {7}, 0, 100)}));
  }
  // The operand that is not selected does not affect the result, whatever its value.
  cases.push_back(SpecialCase("select", {Conditions({65}), Special({65}), Special({65})}));
}

void AddCastCases(std::vector<Case>& cases) {
  for (DType from : kAllDTypes) {
    for (DType to : kAllDTypes) {
      for (const Shape& shape : {Shape{}, Shape{5, 37}, Shape{0}}) {
        // Negative numbers and fractions, if both dtypes can represent them.
        const bool fractions = IsFloating(from), negative = to != DType::kU8 && from != DType::kU8;
        const double low = negative ? -100 : 0, high = 100;
        CaseInput input = fractions ? Uniform(shape, low, high) : Integers(from, shape, low, high);
        input.type.dtype = from;
        Case use = MakeCase("cast", {input}, {{"dtype", to}});
        use.smooth = IsFloating(from) && IsFloating(to);
        cases.push_back(std::move(use));
      }
    }
  }
  for (DType to : {DType::kBF16, DType::kF64, DType::kF16}) {
    cases.push_back(MakeCase("cast", {Normal(kLarge)}, {{"dtype", to}}));
    cases.push_back(SpecialCase("cast", {Special({65})}, {{"dtype", to}}));
  }
}

void AddMaskCases(std::vector<Case>& cases) {
  for (const Shape& shape : SomeShapes()) {
    cases.push_back(MakeCase("valid_mask", {Labels(shape, 10)},
                             {{"ignore_index", int64_t{-100}}, {"dtype", DType::kF32}}));
  }
  cases.push_back(MakeCase("valid_mask", {Ids({50}, 3)},
                           {{"ignore_index", int64_t{0}}, {"dtype", DType::kF32}}));

  int64_t seed = 3;
  for (const Shape& shape : SomeShapes()) {
    for (double probability : {0.0, 0.1, 0.5, 0.999}) {
      cases.push_back(MakeCase(
          "dropout", {Normal(shape), Scalar(DType::kI64, seed), Scalar(DType::kI64, seed / 2)},
          {{"probability", probability}, {"random_path", std::string("blocks.1.drop")}}));
      seed = seed * 5 % 1000003;
    }
  }
  const auto part = [&](const Shape& shape, std::vector<int64_t> start,
                        std::vector<int64_t> global) {
    cases.push_back(MakeCase("dropout",
                             {Normal(shape), Scalar(DType::kI64, 12), Scalar(DType::kI64, 34)},
                             {{"probability", 0.3},
                              {"random_path", std::string("p")},
                              {"start", std::move(start)},
                              {"global_shape", std::move(global)}}));
  };
  part({5}, {3}, {9});
  part({2, 3}, {1, 2}, {4, 7});
  part({2, 5, 3}, {0, 5, 1}, {2, 11, 4});
  part({2, 5, 3}, {7, 0, 0}, {9, 5, 3});
  part({0, 3}, {4, 0}, {4, 3});
  part({20, 1027}, {20, 0}, {40, 1027});
  part({40, 513}, {0, 514}, {40, 1027});
}

}  // namespace

std::vector<Case> ElementwiseCases() {
  std::vector<Case> cases;
  AddBinaryCases(cases);
  AddUnaryCases(cases);
  AddSelectCases(cases);
  AddCastCases(cases);
  AddMaskCases(cases);
  return cases;
}

}  // namespace tessera::operator_tests
