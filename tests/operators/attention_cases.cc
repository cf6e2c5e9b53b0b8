#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

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

// Masks of all rows, and of `rows` of them that begin at row `first`.
void AddRowMasks(std::vector<Case>& cases, const Shape& shape, int64_t position, int64_t first,
                 int64_t rows) {
  for (const bool up_to : {false, true}) {
    const auto add = [&](const Shape& part) {
      cases.push_back(
          MakeCase("row_mask", absl::StrCat("position ", position, " of ", shape[0]),
                   {Scalar(DType::kI64, position)},
                   {{"shape", std::vector<int64_t>(part.begin(), part.end())}, {"up_to", up_to}}));
    };
    add(shape);
    Shape part = shape, start(shape.size(), 0);
    part[0] = rows;
    start[0] = first;
    add(part);
    cases.back().name += absl::StrCat(" from ", first);
    cases.back().regions = {{Region{{}, {}}}, {Region{start, shape}}};
  }
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
  AddRowMasks(cases, {1}, 0, 1, 0);
  for (const int64_t position : {0, 3, 4, 6}) AddRowMasks(cases, {7, 1, 1}, position, 2, 3);
  AddRowMasks(cases, {130, 5}, 64, 60, 70);
  return cases;
}

namespace {

// Adds a use of linear_log_sum_exp, and of its gradient on the statistics (and logits) that the
// first one makes.
class LogSumExpCases {
 public:
  explicit LogSumExpCases(std::vector<Case>& cases) : cases_(cases) {}

  void Add(const Shape& rows, int64_t columns, int64_t vocabulary, bool ignored,
           double spread = 1) {
    Shape x = rows;
    x.push_back(columns);
    const std::string detail = absl::StrCat(ignored ? "all ignored" : "", spread == 1 ? "" : "far");
    const CaseInput targets =
        ignored ? Integers(DType::kI32, rows, -100, -99) : Labels(rows, vocabulary);
    const CaseInput input = Normal(x, 0, spread), weight = Normal({vocabulary, columns});
    Shape logits = rows;
    logits.push_back(vocabulary);
    const CaseInput zero_or_one = Integers(DType::kF32, rows, 0, 2);
    for (const bool keeps_logits : {false, true}) {
      const Attributes attributes = AttributesFor(keeps_logits);
      Case forward = MakeCase("linear_log_sum_exp", detail, {input, weight, targets}, attributes);
      forward.differentiable_outputs = {0, 1};
      forward.condition = 2;
      cases_.push_back(forward);
      // The second one has rows of weight zero, like those of ignored labels.
      for (const CaseInput& row : {Normal(rows), zero_or_one}) {
        std::vector<CaseInput> inputs = {row, row, input, weight, targets, Normal(rows)};
        if (keeps_logits) inputs.push_back(Normal(logits));
        const bool zeros = row.draw.kind == Draw::Kind::kInteger;
        Case grad = MakeCase("linear_log_sum_exp_grad", absl::StrCat(zeros ? "zeros " : "", detail),
                             inputs, attributes);
        grad.derived = {{.op = "linear_log_sum_exp",
                         .attributes = attributes,
                         .from = {2, 3, 4},
                         .outputs = {0},
                         .to = {5}}};
        if (keeps_logits) {
          grad.derived[0].outputs.push_back(2);
          grad.derived[0].to.push_back(6);
        }
        grad.condition = 4 * spread;
        cases_.push_back(grad);
      }
    }
  }

  // Adds words 5 to 9 of 20: most targets are elsewhere.
  void AddPart() {
    const CaseInput x = Normal({12, 4}), w = Normal({5, 4}), targets = Labels({12}, 20);
    const Region rows = {{0}, {12}}, all_x = {{0, 0}, {12, 4}}, part = {{5, 0}, {20, 4}};
    const Region logits = {{0, 5}, {12, 20}};
    for (const bool keeps_logits : {false, true}) {
      const Attributes attributes = AttributesFor(keeps_logits);
      cases_.push_back(MakeCase("linear_log_sum_exp", "a part", {x, w, targets}, attributes));
      cases_.back().regions = {{all_x, part, rows}, {rows, rows}};
      if (keeps_logits) cases_.back().regions.outputs.push_back(logits);
      // As the log-sum-exp of all words, it is above most logits of the part.
      const CaseInput lse = Integers(DType::kF32, {12}, 2, 5);
      std::vector<CaseInput> inputs = {Normal({12}), Normal({12}), x, w, targets, lse};
      if (keeps_logits) inputs.push_back(Normal({12, 5}));
      cases_.push_back(MakeCase("linear_log_sum_exp_grad", "a part", inputs, attributes));
      cases_.back().regions = {{rows, rows, all_x, part, rows, rows}, {all_x, part}};
      if (keeps_logits) cases_.back().regions.inputs.push_back(logits);
    }
  }

  // Adds rows that hold NaN. Those of weight zero do not affect the result.
  void AddSpecial() {
    const CaseInput x = SomeNaN({9, 6}), w = Normal({40, 6}), targets = Labels({9}, 40);
    const CaseInput zeros = Integers(DType::kF32, {9}, 0, 1);
    for (const bool keeps_logits : {false, true}) {
      const Attributes attributes = AttributesFor(keeps_logits);
      cases_.push_back(SpecialCase("linear_log_sum_exp", {x, w, targets}, attributes));
      std::vector<CaseInput> inputs = {zeros, zeros, x, w, targets, SomeNaN({9})};
      if (keeps_logits) inputs.push_back(SomeNaN({9, 40}));
      cases_.push_back(SpecialCase("linear_log_sum_exp_grad", inputs, attributes));
    }
  }

 private:
  static Attributes AttributesFor(bool keeps_logits) {
    return keeps_logits ? Attributes({{"keep_logits", true}}) : Attributes();
  }

  std::vector<Case>& cases_;
};

}  // namespace

std::vector<Case> LinearLogSumExpCases() {
  std::vector<Case> cases;
  LogSumExpCases list(cases);
  list.Add({5}, 4, 7, false);
  list.Add({5}, 4, 7, true);
  list.Add({2, 3}, 4, 6, false);
  list.Add({}, 3, 5, false);
  list.Add({0}, 3, 5, false);
  list.Add({4}, 1, 1, false);
  list.Add({1}, 9, 2, false);
  list.Add({6}, 8, 20, false, /*spread=*/10);
  list.Add({70}, 33, 131, false);
  list.Add({3, 100}, 16, 50, false);
  list.AddPart();
  list.AddSpecial();
  return cases;
}

}  // namespace tessera::operator_tests
