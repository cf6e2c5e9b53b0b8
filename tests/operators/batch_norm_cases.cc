// Cases of batch norm's operators.
#include "tests/operators/case_list.h"

namespace tessera::operator_tests {
namespace {

struct Batch {
  Shape x;
  int64_t groups = 1;

  int64_t group_rows() const { return x[0] == 0 ? 1 : (x[0] - 1) / groups + 1; }
  Shape rows() const { return {x[0]}; }
  Shape channels() const { return {x.back()}; }
  Shape statistic() const { return {groups, x.back()}; }
};

// Returns 0 and 1, in f32.
CaseInput Valid(const Batch& batch) { return Integers(DType::kF32, batch.rows(), 0, 2); }
CaseInput Rstd(const Batch& batch) { return Uniform(batch.statistic(), 0.5, 2); }

// Adds a case with `inputs`, and one that has `valid` besides.
void AddWithAndWithoutValid(const char* op, const Batch& batch, std::vector<CaseInput> inputs,
                            const Attributes& attributes, std::vector<Case>& cases) {
  for (const bool has_valid : {false, true}) {
    if (has_valid) inputs.push_back(Valid(batch));
    Case use = MakeCase(op, inputs, attributes);
    use.condition = 4;  // Terms of either sign.
    // Without the operators that compute statistics of x, the gradient is another one.
    use.smooth = false;
    cases.push_back(use);
  }
}

void AddBatch(const Batch& batch, std::vector<Case>& cases) {
  const Attributes attributes = {{"group_rows", batch.group_rows()}};
  Attributes of_sum = attributes;
  of_sum.Set("groups", batch.groups);
  const CaseInput x = Normal(batch.x, 0.5), statistic = Normal(batch.statistic());
  const CaseInput channels = Normal(batch.channels());
  const CaseInput count = Integers(DType::kF32, {batch.groups, 1}, 0, 9);
  AddWithAndWithoutValid("batch_norm_sum", batch, {x}, of_sum, cases);
  AddWithAndWithoutValid("batch_norm_squares", batch, {x, statistic}, attributes, cases);
  cases.push_back(
      MakeCase("batch_norm", {x, statistic, Rstd(batch), channels, channels}, attributes));
  cases.back().condition = 4;
  AddWithAndWithoutValid("batch_norm", batch,
                         {x, statistic, Rstd(batch), channels, channels, count}, attributes, cases);
  cases.push_back(
      MakeCase("batch_norm_grad_sums", {Normal(batch.x), x, statistic, Rstd(batch)}, attributes));
  cases.back().condition = 4;
  cases.push_back(
      MakeCase("batch_norm_grad", {Normal(batch.x), Rstd(batch), channels}, attributes));
  AddWithAndWithoutValid(
      "batch_norm_grad", batch,
      {Normal(batch.x), Rstd(batch), channels, x, statistic, statistic, statistic, count},
      attributes, cases);
}

// Rows 3 to 7 of a device's 10, which are groups of 4, and all statistics of these. The 10 rows are
// a micro-batch that starts at row `start`.
void AddPart(int64_t start, std::vector<Case>& cases) {
  const Shape x = {5, 2, 7}, statistic = {3, 7};
  const Attributes attributes = {{"group_rows", int64_t{4}}};
  Attributes of_sum = attributes;
  of_sum.Set("groups", int64_t{3});
  const Region of_x = {{start + 3, 0, 0}, {start + 10, 2, 7}, {start, 0, 0}};
  const Region of_statistic = {{0, 0}, {3, 7}}, of_count = {{0, 0}, {3, 1}}, all = {{0}, {7}};
  const std::string detail = start == 0 ? "a part" : "a part of a micro-batch";
  cases.push_back(MakeCase("batch_norm_sum", detail, {Normal(x)}, of_sum));
  cases.back().regions = {{of_x}, {of_statistic, of_count}};
  cases.push_back(
      MakeCase("batch_norm_squares", detail, {Normal(x), Normal(statistic)}, attributes));
  cases.back().regions = {{of_x, of_statistic}, {of_statistic}};
  cases.push_back(
      MakeCase("batch_norm", detail,
               {Normal(x), Normal(statistic), Uniform(statistic, 0.5, 2), Normal({7}), Normal({7})},
               attributes));
  cases.back().regions = {{of_x, of_statistic, of_statistic, all, all}, {of_x}};
}

}  // namespace

std::vector<Case> BatchNormCases() {
  std::vector<Case> cases;
  for (const Batch& batch : {
           Batch{{1, 1}},
           Batch{{7, 5}},
           Batch{{7, 5}, 3},
           Batch{{6, 4, 3, 5}, 3},
           Batch{{3, 2, 3, 67}},
           Batch{{4, 3, 1, 2}, 4},
           Batch{{5, 7, 1}, 2},
           Batch{{9, 2, 3}, 3},
           Batch{{0, 3}},
           Batch{{3, 0, 4}},
           Batch{{4, 3, 0}, 2},
           // Threads share the positions of these, and the last strip of channels is short.
           Batch{{90, 5, 67}},
           Batch{{70, 3, 300}, 2},
       }) {
    AddBatch(batch, cases);
  }
  for (const int64_t start : {0, 20}) AddPart(start, cases);
  const Batch special = {{9, 20}, 2};
  const Attributes attributes = {{"group_rows", special.group_rows()}};
  const CaseInput x = SomeNaN(special.x), statistic = Normal(special.statistic());
  const CaseInput channels = Normal(special.channels());
  cases.push_back(SpecialCase("batch_norm_sum", {x},
                              {{"group_rows", special.group_rows()}, {"groups", special.groups}}));
  cases.push_back(SpecialCase("batch_norm_squares", {x, statistic}, attributes));
  cases.push_back(
      SpecialCase("batch_norm", {x, statistic, Rstd(special), channels, channels}, attributes));
  cases.push_back(SpecialCase("batch_norm_grad_sums",
                              {x, Normal(special.x), statistic, Rstd(special)}, attributes));
  cases.push_back(SpecialCase("batch_norm_grad", {x, Rstd(special), channels}, attributes));
  return cases;
}

}  // namespace tessera::operator_tests
