#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/operators/case_list.h"

namespace tessera::operator_tests {
namespace {

struct Sizes {
  int64_t batch, queries, keys, heads, head_dim;
};

void AddAttention(std::vector<Case>& cases, const Sizes& s, bool causal, double scale,
                  double spread = 1) {
  const Attributes attributes = {{"causal", causal}, {"scale", scale}};
  const Shape q = {s.batch, s.queries, s.heads, s.head_dim};
  const Shape k = {s.batch, s.keys, s.heads, s.head_dim};
  const std::string detail = spread == 1 ? "" : absl::StrCat("spread ", spread);
  Case forward =
      MakeCase("attention", detail, {Normal(q, 0, spread), Normal(k), Normal(k)}, attributes);
  forward.differentiable_outputs = {0};
  forward.condition = 2 * spread;
  cases.push_back(forward);

  Case backward = MakeCase("attention_grad", detail,
                           {Normal(q), Normal(q, 0, spread), Normal(k), Normal(k), Normal(q),
                            Normal({s.batch, s.heads, s.queries})},
                           attributes);
  backward.derived = {{.op = "attention",
                       .attributes = attributes,
                       .from = {1, 2, 3},
                       .outputs = {0, 1},
                       .to = {4, 5}}};
  // Rounding errors of the scores grow through exponentials and a difference.
  backward.condition = 4 * spread;
  cases.push_back(backward);
}

void AddDecode(std::vector<Case>& cases, int64_t batch, int64_t rows, int64_t heads,
               int64_t head_dim, int64_t position) {
  const Shape token = {batch, 1, heads, head_dim}, cache = {batch, rows, heads, head_dim};
  cases.push_back(MakeCase("attention_decode", absl::StrCat("position ", position),
                           {Normal(token), Normal(token), Normal(token), Normal(cache),
                            Normal(cache), Scalar(DType::kI64, position)},
                           {{"scale", 1 / std::sqrt(static_cast<double>(head_dim))}}));
}

}  // namespace

std::vector<Case> AttentionCases() {
  std::vector<Case> cases;
  for (bool causal : {false, true}) {
    AddAttention(cases, {1, 1, 1, 1, 1}, causal, 1);
    AddAttention(cases, {2, 5, 5, 3, 4}, causal, 0.5);
    AddAttention(cases, {1, 7, 7, 2, 3}, causal, 1);
    AddAttention(cases, {3, 2, 2, 1, 17}, causal, 0.25);
    AddAttention(cases, {0, 3, 3, 2, 4}, causal, 0.5);
    AddAttention(cases, {1, 33, 33, 2, 64}, causal, 0.125);
    AddAttention(cases, {1, 130, 130, 3, 32}, causal, 0.17);
    AddAttention(cases, {2, 20, 20, 2, 8}, causal, 1, /*spread=*/8);
  }
  AddAttention(cases, {2, 3, 7, 2, 4}, false, 0.5);
  AddAttention(cases, {2, 7, 3, 2, 4}, false, 0.5);
  AddAttention(cases, {1, 1, 9, 2, 4}, false, 0.5);
  AddAttention(cases, {1, 65, 129, 2, 16}, false, 0.25);

  for (bool causal : {false, true}) {
    cases.push_back(SpecialCase("attention",
                                {SomeNaN({1, 9, 2, 4}), Normal({1, 9, 2, 4}), Normal({1, 9, 2, 4})},
                                {{"causal", causal}, {"scale", 0.5}}));
  }
  cases.push_back(SpecialCase("attention",
                              {Normal({1, 9, 2, 4}), Normal({1, 9, 2, 4}), SomeNaN({1, 9, 2, 4})},
                              {{"causal", false}, {"scale", 1.0}}));
  // Rows of the caches after the position are not read; here these rows are not finite.
  cases.push_back(
      SpecialCase("attention_decode",
                  {Normal({1, 1, 1, 4}), Normal({1, 1, 1, 4}), Normal({1, 1, 1, 4}),
                   SomeNaN({1, 8, 1, 4}), SomeNaN({1, 8, 1, 4}), Scalar(DType::kI64, 1)},
                  {{"scale", 0.5}}));

  for (int64_t position : {0, 3, 7}) AddDecode(cases, 2, 8, 3, 4, position);
  AddDecode(cases, 1, 1, 1, 1, 0);
  AddDecode(cases, 1, 5, 2, 17, 2);
  AddDecode(cases, 2, 130, 3, 64, 100);
  return cases;
}

std::vector<Case> LinearLogSumExpCases() {
  std::vector<Case> cases;
  const auto add = [&](const Shape& rows, int64_t columns, int64_t vocabulary, bool ignored,
                       double spread = 1) {
    Shape x = rows;
    x.push_back(columns);
    const std::string detail = absl::StrCat(ignored ? "all ignored" : "", spread == 1 ? "" : "far");
    const CaseInput targets =
        ignored ? Integers(DType::kI32, rows, -100, -99) : Labels(rows, vocabulary);
    const CaseInput input = Normal(x, 0, spread), weight = Normal({vocabulary, columns});
    cases.push_back(MakeCase("linear_log_sum_exp", detail, {input, weight, targets}));
    cases.back().condition = 2;

    Case grad = MakeCase("linear_log_sum_exp_grad", detail,
                         {Normal(rows), Normal(rows), input, weight, targets, Normal(rows)});
    grad.derived = {{.op = "linear_log_sum_exp",
                     .attributes = {},
                     .from = {2, 3, 4},
                     .outputs = {0},
                     .to = {5}}};
    grad.condition = 4 * spread;
    cases.push_back(grad);
    // Rows of weight zero, like those of ignored labels.
    grad = MakeCase("linear_log_sum_exp_grad", absl::StrCat("zeros ", detail),
                    {Integers(DType::kF32, rows, 0, 2), Integers(DType::kF32, rows, 0, 2), input,
                     weight, targets, Normal(rows)});
    grad.derived = {{.op = "linear_log_sum_exp",
                     .attributes = {},
                     .from = {2, 3, 4},
                     .outputs = {0},
                     .to = {5}}};
    grad.condition = 4 * spread;
    cases.push_back(grad);
  };
  add({5}, 4, 7, false);
  add({5}, 4, 7, true);
  add({2, 3}, 4, 6, false);
  add({}, 3, 5, false);
  add({0}, 3, 5, false);
  add({4}, 1, 1, false);
  add({1}, 9, 2, false);
  add({6}, 8, 20, false, /*spread=*/10);
  add({70}, 33, 131, false);
  add({3, 100}, 16, 50, false);
  // Words 5 to 9 of 20: most targets are elsewhere.
  const CaseInput x = Normal({12, 4}), w = Normal({5, 4}), targets = Labels({12}, 20);
  const Region rows = {{0}, {12}}, all_x = {{0, 0}, {12, 4}}, part = {{5, 0}, {20, 4}};
  cases.push_back(MakeCase("linear_log_sum_exp", "a part", {x, w, targets}));
  cases.back().regions = {{all_x, part, rows}, {rows, rows}};
  cases.push_back(MakeCase("linear_log_sum_exp_grad", "a part",
                           {Normal({12}), Normal({12}), x, w, targets, Normal({12}, 3)}));
  cases.back().regions = {{rows, rows, all_x, part, rows, rows}, {all_x, part}};
  cases.push_back(
      SpecialCase("linear_log_sum_exp", {SomeNaN({9, 6}), Normal({40, 6}), Labels({9}, 40)}));
  // Rows of weight zero do not affect the result, whatever their values are.
  const CaseInput zeros = Integers(DType::kF32, {9}, 0, 1);
  cases.push_back(
      SpecialCase("linear_log_sum_exp_grad",
                  {zeros, zeros, SomeNaN({9, 6}), Normal({40, 6}), Labels({9}, 40), SomeNaN({9})}));
  return cases;
}

}  // namespace tessera::operator_tests
