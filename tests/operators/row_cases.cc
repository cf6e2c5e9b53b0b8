#include <utility>

#include "tests/operators/case_list.h"

namespace tessera::operator_tests {
namespace {

using Ints = std::vector<int64_t>;

void AddSoftmaxCases(std::vector<Case>& cases) {
  const std::pair<Shape, int64_t> uses[] = {
      {{5}, 0},       {{1}, 0},       {{3, 7}, 1},    {{3, 7}, 0},      {{2, 3, 4}, 0},
      {{2, 3, 4}, 1}, {{2, 3, 4}, 2}, {{3, 1}, 1},    {{0, 4}, 1},      {{4, 0}, 1},
      {{3, 0, 2}, 0}, {{40, 257}, 1}, {{40, 257}, 0}, {{7, 33, 40}, 1}, {{2, 5000}, 1},
  };
  for (const auto& [shape, axis] : uses) {
    const Attributes attributes = {{"axis", axis}};
    cases.push_back(MakeCase("softmax", {Normal(shape, 0, 2)}, attributes));
    cases.push_back(MakeCase("softmax_grad", {Normal(shape), Uniform(shape, 0, 1)}, attributes));
  }
  for (int64_t axis : {0, 1}) {
    cases.push_back(SpecialCase("softmax", {SomeNaN({6, 40})}, {{"axis", axis}}));
    cases.push_back(
        SpecialCase("softmax_grad", {SomeNaN({6, 40}), Uniform({6, 40}, 0, 1)}, {{"axis", axis}}));
  }
  cases.push_back(
      MakeCase("softmax", "far from 0", {Normal({9, 20}, 1000, 50)}, {{"axis", int64_t{1}}}));
  // Neither exponentials of 1000 nor differences of such numbers may overflow the result.
  cases.back().smooth = false;
}

void AddLayerNormCases(std::vector<Case>& cases) {
  const auto add = [&](absl::string_view detail, Shape shape, double mean, double eps) {
    const Shape columns = {shape.back()};
    Case norm =
        MakeCase("layer_norm", detail,
                 {Normal(shape, mean), Normal(columns, 1, 0.5), Normal(columns)}, {{"eps", eps}});
    norm.differentiable_outputs = {0};
    // Subtracting a mean that is far from 0 cancels digits.
    norm.condition = 1 + mean;
    cases.push_back(norm);

    Shape rows = shape;
    rows.pop_back();
    Case grad = MakeCase(
        "layer_norm_grad", absl::StrCat("eps ", eps, " ", detail),
        {Normal(shape), Normal(shape, mean), Normal(columns, 1, 0.5), Normal(rows), Normal(rows)});
    grad.derived = {{.op = "layer_norm",
                     .attributes = {{"eps", eps}},
                     .from = {1, 2, 2},
                     .outputs = {1, 2},
                     .to = {3, 4}}};
    grad.condition = 1 + mean;
    cases.push_back(grad);
  };
  for (const Shape& shape : {Shape{4, 8}, Shape{2, 3, 5}, Shape{7}, Shape{3, 1}, Shape{0, 4},
                             Shape{2, 0, 3}, Shape{1, 17}, Shape{40, 768}, Shape{3, 4, 129}}) {
    add("", shape, 0, 1e-5);
  }
  add("", {4, 8}, 0, 0.5);
  add("mean 50", {6, 300}, 50, 1e-5);
  cases.push_back(
      SpecialCase("layer_norm", {SomeNaN({9, 20}), Normal({20}), Normal({20})}, {{"eps", 1e-5}}));
  cases.push_back(SpecialCase("layer_norm_grad", {SomeNaN({9, 20}), Normal({9, 20}), Normal({20}),
                                                  Normal({9}), Uniform({9}, 0.5, 2)}));
}

// Adds the operators of layer norm on parts of rows, with statistics of other elements.
void AddLayerNormParts(const Shape& shape, bool special, std::vector<Case>& cases) {
  Shape rows = shape;
  rows.pop_back();
  const CaseInput x = special ? SomeNaN(shape) : Normal(shape, 0.5), dy = Normal(shape);
  const CaseInput weight = Normal({shape.back()}, 1, 0.5), bias = Normal({shape.back()});
  const CaseInput statistic = Normal(rows), rstd = Uniform(rows, 0.5, 2);
  const auto add = [&](const char* op, std::vector<CaseInput> inputs) {
    cases.push_back(special ? SpecialCase(op, std::move(inputs)) : MakeCase(op, std::move(inputs)));
    cases.back().condition = 4;  // Terms of either sign.
  };
  add("layer_norm_sum", {x});
  add("layer_norm_squares", {x, statistic});
  add("layer_norm_apply", {x, statistic, rstd, weight, bias});
  add("layer_norm_grad_sums", {dy, x, weight, statistic, rstd});
  add("layer_norm_grad_apply", {dy, x, weight, statistic, rstd, statistic, statistic});
}

void AddLayerNormPartsCases(std::vector<Case>& cases) {
  // Threads share the rows of the last two.
  for (const Shape& shape : {Shape{4, 8}, Shape{2, 3, 5}, Shape{7}, Shape{1}, Shape{0}, Shape{3, 1},
                             Shape{0, 4}, Shape{3, 0}, Shape{2, 0, 3}, Shape{1, 17},
                             Shape{3, 4, 129}, Shape{40, 768}, Shape{150, 67}}) {
    AddLayerNormParts(shape, /*special=*/false, cases);
  }
  AddLayerNormParts({9, 20}, /*special=*/true, cases);
}

void AddReductionCases(std::vector<Case>& cases) {
  const std::pair<Shape, Ints> uses[] = {
      {{5}, {0}},
      {{1}, {0}},
      {{3, 5}, {0}},
      {{3, 5}, {1}},
      {{3, 5}, {0, 1}},
      {{3, 4, 5}, {1}},
      {{3, 4, 5}, {0, 2}},
      {{3, 4, 5}, {1, 2}},
      {{3, 4, 5}, {0, 1}},
      {{2, 3, 1, 5}, {1, 2}},
      {{2, 1, 4, 3, 2}, {0, 2, 4}},
      {{0, 3}, {1}},
      {{3, 40, 257}, {1}},
      {{40, 1027}, {0}},
      {{40, 1027}, {1}},
      {{40, 1027}, {0, 1}},
  };
  for (const auto& [shape, axes] : uses) {
    for (bool keep_dims : {false, true}) {
      const Attributes attributes = {{"axes", axes}, {"keep_dims", keep_dims}};
      cases.push_back(MakeCase("reduce_sum", {Normal(shape)}, attributes));
      cases.back().condition = 4;  // Terms of either sign.
      cases.push_back(MakeCase("reduce_max", {Distinct(shape)}, attributes));

      Shape reduced;
      for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
        const bool is_axis = std::find(axes.begin(), axes.end(), d) != axes.end();
        if (!is_axis) reduced.push_back(shape[d]);
        if (is_axis && keep_dims) reduced.push_back(1);
      }
      for (bool ties : {false, true}) {
        Case grad =
            MakeCase("reduce_max_grad", ties ? "ties" : "",
                     {Normal(reduced), ties ? Integers(DType::kF32, shape, 0, 3) : Distinct(shape),
                      Normal(reduced)},
                     attributes);
        grad.derived = {
            {.op = "reduce_max", .attributes = attributes, .from = {1}, .outputs = {0}, .to = {2}}};
        cases.push_back(grad);
      }
    }
  }
  for (const char* op : {"reduce_sum", "reduce_max"}) {
    for (const Ints& axes : {Ints{0}, Ints{1}}) {
      cases.push_back(SpecialCase(op, {Special({5, 26})}, {{"axes", axes}, {"keep_dims", false}}));
    }
  }
  // Threads split the rows of these, and the last block of columns is smaller than the others.
  for (const char* op : {"reduce_sum", "reduce_max"}) {
    cases.push_back(
        MakeCase(op, {Distinct({600, 1500})}, {{"axes", Ints{0}}, {"keep_dims", false}}));
  }
  cases.push_back(SpecialCase("sum_squares", {SomeNaN({5, 26})}));
  // A sum over no elements.
  for (const Ints& axes : {Ints{0}, Ints{0, 1}}) {
    cases.push_back(
        MakeCase("reduce_sum", {Normal({0, 3})}, {{"axes", axes}, {"keep_dims", false}}));
  }
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{0}, Shape{17}, Shape{3, 5}, Shape{2, 3, 4, 5}, Shape{40, 1027}}) {
    cases.push_back(MakeCase("sum_squares", {Normal(shape)}));
  }
}

void AddEmbeddingCases(std::vector<Case>& cases) {
  struct Sizes {
    int64_t rows, columns;
    Shape ids;
  };
  const Sizes uses[] = {{5, 3, {4}},        {5, 3, {2, 3}},     {5, 3, {}},
                        {5, 3, {0}},        {1, 1, {7}},        {5, 1, {2, 1}},
                        {7, 16, {2, 3, 4}}, {50, 129, {9, 33}}, {3, 768, {40}}};
  for (const auto& [rows, columns, ids] : uses) {
    cases.push_back(MakeCase("embedding", {Normal({rows, columns}), Ids(ids, rows)}));
    Shape out = ids;
    out.push_back(columns);
    cases.push_back(MakeCase("embedding_grad", {Normal(out), Ids(ids, rows)}, {{"rows", rows}}));
    cases.back().condition = 4;
  }
  // Rows 2, 3 and 4 of a table of 7, and none of it.
  for (const int64_t rows : {3, 0}) {
    const Region part = {{2, 0}, {7, 5}}, ids = {{0}, {20}}, y = {{0, 0}, {20, 5}};
    cases.push_back(MakeCase("embedding", "a part", {Normal({rows, 5}), Ids({20}, 7)}));
    cases.back().regions = {{part, ids}, {y}};
    cases.push_back(
        MakeCase("embedding_grad", "a part", {Normal({20, 5}), Ids({20}, 7)}, {{"rows", rows}}));
    cases.back().regions = {{y, ids}, {part}};
    cases.back().condition = 4;
  }
  cases.push_back(SpecialCase("embedding", {SomeNaN({9, 12}), Ids({20}, 9)}));
  cases.push_back(
      SpecialCase("embedding_grad", {SomeNaN({20, 12}), Ids({20}, 9)}, {{"rows", int64_t{9}}}));
}

// Adds a use of log_sum_exp, and of its gradient on the log-sum-exps that the first one makes.
void AddLogSumExp(const Shape& rows, int64_t classes, double smoothing, std::vector<Case>& cases,
                  absl::string_view detail = "", double mean = 0, double spread = 1) {
  Shape shape = rows;
  shape.push_back(classes);
  const CaseInput logits = Normal(shape, mean, spread), targets = Labels(rows, classes);
  const Attributes attributes = {{"label_smoothing", smoothing}};
  cases.push_back(MakeCase("log_sum_exp", detail, {logits, targets}, attributes));
  cases.back().condition = 2;
  // The second one has rows of weight zero, like those of ignored labels.
  for (const bool zeros : {false, true}) {
    if (zeros && rows.empty()) continue;  // a gradient of zeros alone has no size to err by
    const CaseInput row = zeros ? Integers(DType::kF32, rows, 0, 2) : Normal(rows);
    Case grad = MakeCase("log_sum_exp_grad", absl::StrCat(zeros ? "zeros " : "", detail),
                         {row, row, logits, targets, Normal(rows)}, attributes);
    grad.derived = {
        {.op = "log_sum_exp", .attributes = attributes, .from = {2, 3}, .outputs = {0}, .to = {4}}};
    // The exponent is a difference of numbers near the mean.
    grad.condition = 4 + mean;
    cases.push_back(grad);
  }
}

void AddLogSumExpCases(std::vector<Case>& cases) {
  for (const double smoothing : {0.0, 0.1}) {
    const std::pair<Shape, int64_t> uses[] = {{{}, 5},  {{5}, 7},    {{2, 3}, 6},   {{4}, 1},
                                              {{0}, 3}, {{70}, 131}, {{3, 40}, 50}, {{9}, 1000}};
    for (const auto& [rows, classes] : uses) AddLogSumExp(rows, classes, smoothing, cases);
    const Attributes attributes = {{"label_smoothing", smoothing}};
    // Classes 5 to 9 of 20: most targets are elsewhere.
    const CaseInput logits = Normal({12, 5}), targets = Labels({12}, 20);
    const Region rows = {{0}, {12}}, part = {{0, 5}, {12, 20}};
    cases.push_back(MakeCase("log_sum_exp", "a part", {logits, targets}, attributes));
    cases.back().regions = {{part, rows}, {rows, rows}};
    // As the log-sum-exp of all classes, it is above most logits of the part.
    const CaseInput lse = Integers(DType::kF32, {12}, 2, 5);
    cases.push_back(MakeCase("log_sum_exp_grad", "a part",
                             {Normal({12}), Normal({12}), logits, targets, lse}, attributes));
    cases.back().regions = {{rows, rows, part, rows, rows}, {part}};
    // NaN and infinities; those in rows of weight zero do not affect the gradient.
    cases.push_back(SpecialCase("log_sum_exp", {SomeNaN({9, 40}), Labels({9}, 40)}, attributes));
    cases.push_back(
        MakeCase("log_sum_exp", "infinities", {Special({9, 4}), Labels({9}, 4)}, attributes));
    const CaseInput zeros = Integers(DType::kF32, {9}, 0, 1);
    cases.push_back(SpecialCase("log_sum_exp_grad",
                                {zeros, zeros, SomeNaN({9, 40}), Labels({9}, 40), SomeNaN({9})},
                                attributes));
  }
  // Exponentials of such numbers overflow.
  AddLogSumExp({6}, 20, 0, cases, "far", 0, 30);
  AddLogSumExp({6}, 20, 0.25, cases, "far from 0", 500, 3);
}

void AddTopKCases(std::vector<Case>& cases) {
  struct Sizes {
    Shape rows;
    int64_t columns, k;
  };
  const Sizes uses[] = {{{}, 5, 2},  {{1}, 1, 1},    {{7}, 4, 1},      {{3, 5}, 6, 6},
                        {{0}, 3, 2}, {{2, 3}, 9, 5}, {{301}, 1000, 5}, {{40, 70}, 11, 3}};
  for (const auto& [rows, columns, k] : uses) {
    Shape logits = rows;
    logits.push_back(columns);
    const Attributes attributes = {{"k", k}};
    cases.push_back(
        MakeCase("top_k_correct", {Distinct(logits), Labels(rows, columns)}, attributes));
    cases.push_back(MakeCase("top_k_correct", "ties",
                             {Integers(DType::kF32, logits, 0, 3), Ids(rows, columns)},
                             attributes));
    cases.push_back(MakeCase("top_k_correct", "some are NaN",
                             {SomeNaN(logits), Integers(DType::kI32, rows, -2, columns + 2)},
                             attributes));
    cases.push_back(MakeCase("top_k", {Distinct(logits)}, attributes));
    cases.push_back(MakeCase("top_k", "ties", {Integers(DType::kF32, logits, 0, 3)}, attributes));
    cases.push_back(MakeCase("top_k", "some are NaN", {SomeNaN(logits)}, attributes));
  }
}

}  // namespace

std::vector<Case> RowCases() {
  std::vector<Case> cases;
  AddSoftmaxCases(cases);
  AddLayerNormCases(cases);
  AddLayerNormPartsCases(cases);
  AddReductionCases(cases);
  AddEmbeddingCases(cases);
  AddLogSumExpCases(cases);
  AddTopKCases(cases);
  return cases;
}

}  // namespace tessera::operator_tests
