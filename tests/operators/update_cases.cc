#include "tests/operators/case_list.h"

namespace tessera::operator_tests {
namespace {

using Ints = std::vector<int64_t>;

const Shape kShapes[] = {{}, {1}, {0}, {17}, {3, 5}, {40, 1027}};

void AddSgdCases(std::vector<Case>& cases) {
  for (const Shape& shape : kShapes) {
    for (double momentum : {0.0, 0.9}) {
      for (double weight_decay : {0.0, 0.1}) {
        for (int64_t predicate : {1, 0}) {
          std::vector<CaseInput> inputs = {Normal(shape), Normal(shape)};
          if (momentum != 0) inputs.push_back(Normal(shape));
          inputs.insert(inputs.end(), {Scalar(0.1), Scalar(0.5), Scalar(DType::kU8, predicate)});
          cases.push_back(MakeCase("sgd_update", predicate == 1 ? "" : "no update", inputs,
                                   {{"momentum", momentum}, {"weight_decay", weight_decay}}));
        }
      }
    }
  }
  cases.push_back(MakeCase("sgd_update", "no update by gradients that are not finite",
                           {Special({65}), Special({65}), Special({65}), Scalar(0.1), Scalar(0.5),
                            Scalar(DType::kU8, 0)},
                           {{"momentum", 0.9}, {"weight_decay", 0.1}}));
}

void AddAdamwCases(std::vector<Case>& cases) {
  const auto add = [&](absl::string_view detail, const Shape& shape, int64_t step,
                       int64_t predicate, double weight_decay, double eps) {
    cases.push_back(
        MakeCase("adamw_update", absl::StrCat("step ", step, detail),
                 {Normal(shape), Normal(shape), Normal(shape), Uniform(shape, 0, 1), Scalar(0.01),
                  Scalar(0.5), Scalar(DType::kI64, step), Scalar(DType::kU8, predicate)},
                 {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", eps}, {"weight_decay", weight_decay}}));
  };
  for (const Shape& shape : kShapes) {
    add("", shape, 1, 1, 0, 1e-8);
    add("", shape, 10, 1, 0.1, 1e-8);
    add(", no update", shape, 10, 0, 0.1, 1e-8);
  }
  add("", {17}, 1000000, 1, 0.1, 1e-8);
  add("", {17}, 3, 1, 0.1, 0.5);
  cases.push_back(
      MakeCase("adamw_update", "no update by gradients that are not finite",
               {Special({65}), Special({65}), Special({65}), Special({65}), Scalar(0.1),
                Scalar(0.5), Scalar(DType::kI64, 2), Scalar(DType::kU8, 0)},
               {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}}));
}

}  // namespace

std::vector<Case> DrawCases() {
  std::vector<Case> cases;
  for (DType dtype : kAllDTypes) {
    for (const Ints& shape : {Ints{}, Ints{17}, Ints{3, 5}, Ints{0}, Ints{40, 1027}}) {
      cases.push_back(MakeCase("fill", {}, {{"shape", shape}, {"dtype", dtype}, {"value", 3.0}}));
    }
  }
  cases.push_back(
      MakeCase("fill", {}, {{"shape", Ints{7}}, {"dtype", DType::kF32}, {"value", -0.1}}));

  for (const Ints& shape : {Ints{}, Ints{17}, Ints{3, 5}, Ints{0}, Ints{40, 1027}}) {
    cases.push_back(MakeCase("random_normal", {Scalar(DType::kI64, 42)},
                             {{"shape", shape},
                              {"dtype", DType::kF32},
                              {"mean", 0.5},
                              {"stddev", 0.02},
                              {"random_path", std::string("wte")}}));
  }
  cases.push_back(MakeCase("random_normal", {Scalar(DType::kI64, 42)},
                           {{"shape", Ints{2, 3}},
                            {"dtype", DType::kF32},
                            {"mean", 0.0},
                            {"stddev", 1.0},
                            {"random_path", std::string("wte")},
                            {"start", Ints{1, 2}},
                            {"global_shape", Ints{4, 7}}}));
  return cases;
}

std::vector<Case> UpdateCases() {
  std::vector<Case> cases;
  for (const Shape& shape : kShapes) cases.push_back(MakeCase("all_finite", {Normal(shape)}));
  cases.push_back(MakeCase("all_finite", {Normal({3, 4}), Normal({5}), Normal({0}), Normal({})}));
  cases.push_back(MakeCase("all_finite", {Normal({3, 4}), Special({20}), Normal({5})}));
  cases.push_back(MakeCase("all_finite", "special values", {Special({3})}));
  cases.push_back(MakeCase("all_finite", {Normal({40, 1027}), Special({5})}));
  std::vector<CaseInput> many(70, Normal({3}));
  cases.push_back(MakeCase("all_finite", many));
  AddSgdCases(cases);
  AddAdamwCases(cases);
  return cases;
}

}  // namespace tessera::operator_tests
