#include "tests/operators/signatures/case_form.h"

namespace tessera::operator_tests {
namespace {

using Ints = std::vector<int64_t>;

const std::vector<std::string> kSequences = {"A=2 R=5 C=3", "A=4 R=3 C=4", "A=3 R=6 C=2"};

void AddSoftmaxForms(std::vector<Form>& forms) {
  for (const int64_t axis : {1, 0}) {
    const auto attributes = [=](const Sizes&) { return Attributes{{"axis", axis}}; };
    const std::string detail = axis == 0 ? "along R" : "along C";
    forms.push_back({"softmax", detail, {Wide("RC")}, kRowsColumns, attributes});
    forms.push_back(
        {"softmax_grad",
         detail,
         {Floats("RC"), Floats("RC")},
         kRowsColumns,
         attributes,
         {},
         {{.op = "softmax", .attributes = {}, .from = {1}, .outputs = {0}, .to = {1}}}});
  }
}

void AddLayerNormForms(std::vector<Form>& forms) {
  Attributes attributes = {{"eps", 0.1}};
  const auto add = [&](const std::string& x, const std::vector<std::string>& sizes) {
    const std::string rows = x.substr(0, x.size() - 1);
    forms.push_back(
        {"layer_norm", "", {Floats(x), Floats("C"), Floats("C")}, sizes, [=](const Sizes&) {
           return attributes;
         }});
    forms.push_back({"layer_norm_grad",
                     "",
                     {Floats(x), Floats(x), Floats("C"), Floats(rows), Floats(rows)},
                     sizes,
                     [](const Sizes&) { return Attributes(); },
                     {},
                     {{.op = "layer_norm",
                       .attributes = attributes,
                       .from = {1, 2, 2},
                       .outputs = {1, 2},
                       .to = {3, 4}}}});
  };
  add("RC", kRowsColumns);
  add("ARC", kSequences);
}

void AddLayerNormPartsForms(std::vector<Form>& forms) {
  const auto add = [&](const std::string& dims, const std::vector<std::string>& sizes) {
    const std::string rows = dims.substr(0, dims.size() - 1);
    const Operand x = Wide(dims), dy = Floats(dims), columns = Floats("C");
    const Operand statistic = Floats(rows), rstd = Positive(rows);
    forms.push_back({"layer_norm_sum", "", {x}, sizes});
    forms.push_back({"layer_norm_squares", "", {x, statistic}, sizes});
    forms.push_back({"layer_norm_apply", "", {x, statistic, rstd, columns, columns}, sizes});
    forms.push_back({"layer_norm_grad_sums", "", {dy, x, columns, statistic, rstd}, sizes});
    forms.push_back({"layer_norm_grad_apply",
                     "",
                     {dy, x, columns, statistic, rstd, statistic, statistic},
                     sizes});
  };
  add("RC", kRowsColumns);
  add("ARC", kSequences);
}

void AddReductionForms(std::vector<Form>& forms) {
  struct Use {
    std::string x, y, detail;
    Ints axes;
    bool keep_dims;
    std::vector<std::string> sizes;
  };
  const Use uses[] = {{"RC", "C", "over R", {0}, false, kRowsColumns},
                      {"RC", "R1", "over C, kept", {1}, true, kRowsColumns},
                      {"RC", "", "over R and C", {0, 1}, false, kRowsColumns},
                      {"ARC", "R", "over A and C", {0, 2}, false, kSequences}};
  for (const Use& use : uses) {
    const auto attributes = [axes = use.axes, keep = use.keep_dims](const Sizes&) {
      return Attributes{{"axes", axes}, {"keep_dims", keep}};
    };
    forms.push_back({"reduce_sum", use.detail, {Floats(use.x)}, use.sizes, attributes});
    forms.push_back({"reduce_max", use.detail, {Floats(use.x)}, use.sizes, attributes});
    forms.push_back(
        {"reduce_max_grad",
         use.detail,
         {Floats(use.y), Ties(use.x), Floats(use.y)},
         use.sizes,
         attributes,
         {},
         {{.op = "reduce_max", .attributes = {}, .from = {1}, .outputs = {0}, .to = {2}}}});
  }
  forms.push_back({"sum_squares", "", {Floats("RC")}, kRowsColumns});
}

void AddTableForms(std::vector<Form>& forms) {
  const auto rows = [](const Sizes& s) { return Attributes{{"rows", s('V')}}; };
  const std::vector<std::string> sizes = {"V=5 C=3 A=2 R=7", "V=6 C=4 A=4 R=3", "V=4 C=1 A=3 R=4"};
  for (const std::string ids : {"R", "AR"}) {
    forms.push_back({"embedding", "", {Floats("VC"), IdsBelow(ids, 'V')}, sizes});
    forms.push_back(
        {"embedding_grad", "to [V, C]", {Floats(ids + "C"), IdsBelow(ids, 'V')}, sizes, rows});
  }
}

void AddLogSumExpForms(std::vector<Form>& forms) {
  const std::vector<std::string> sizes = {"R=5 V=7", "R=6 V=4", "R=4 V=6", "R=1 V=3"};
  for (const double smoothing : {0.0, 0.25}) {
    const auto attributes = [=](const Sizes&) {
      return Attributes{{"label_smoothing", smoothing}};
    };
    const std::string detail = smoothing == 0 ? "" : "smoothed";
    forms.push_back(
        {"log_sum_exp", detail, {Floats("RV"), LabelsBelow("R", 'V')}, sizes, attributes});
    forms.push_back(
        {"log_sum_exp_grad",
         detail,
         {Floats("R"), Floats("R"), Floats("RV"), LabelsBelow("R", 'V'), Floats("R")},
         sizes,
         attributes,
         {},
         {{.op = "log_sum_exp", .attributes = {}, .from = {2, 3}, .outputs = {0}, .to = {4}}}});
  }
  const std::vector<std::string> of_top_k = {"R=11 V=7", "R=6 V=4", "R=4 V=6", "R=1 V=3"};
  const auto k = [](const Sizes&) { return Attributes{{"k", int64_t{2}}}; };
  forms.push_back({"top_k_correct", "", {Floats("RV"), LabelsBelow("R", 'V')}, of_top_k, k});
  forms.push_back({"top_k", "", {Floats("RV")}, of_top_k, k});
}

// A batch norm's operands.
struct Batch {
  std::string x;
  std::string detail;
  std::vector<std::string> sizes;
  std::vector<std::string> units;
};

// Adds the operators on one form of batch, with as many of their optional inputs as are numbered.
void AddBatchNorm(const Batch& batch, bool has_count, bool has_valid, std::vector<Form>& forms) {
  const auto group_rows = [](const Sizes& s) { return Attributes{{"group_rows", s('g')}}; };
  const auto add = [&](const std::string& op, std::vector<Operand> inputs, bool takes_valid) {
    if (takes_valid && has_valid) inputs.push_back(ZeroOrOne("R"));
    forms.push_back({op, batch.detail, std::move(inputs), batch.sizes, group_rows, batch.units});
  };
  const Operand x = Wide(batch.x), dy = Floats(batch.x), statistic = Floats("GC");
  const Operand rstd = Positive("GC"), channels = Floats("C"), count = Positive("G1");
  add("batch_norm_sum", {x}, true);
  forms.back().attributes = [](const Sizes& s) {
    return Attributes{{"group_rows", s('g')}, {"groups", s('G')}};
  };
  add("batch_norm_squares", {x, statistic}, true);
  std::vector<Operand> norm = {x, statistic, rstd, channels, channels};
  std::vector<Operand> grad = {dy, rstd, channels};
  if (has_count) {
    norm.push_back(count);
    grad.insert(grad.end(), {x, statistic, statistic, statistic, count});
  }
  add("batch_norm", norm, has_count);
  add("batch_norm_grad_sums", {dy, x, statistic, rstd}, false);
  add("batch_norm_grad", grad, has_count);
}

}  // namespace

std::vector<Form> RowForms() {
  std::vector<Form> forms;
  AddSoftmaxForms(forms);
  AddLayerNormForms(forms);
  AddLayerNormPartsForms(forms);
  AddReductionForms(forms);
  AddTableForms(forms);
  AddLogSumExpForms(forms);
  return forms;
}

std::vector<Form> BatchNormForms() {
  std::vector<Form> forms;
  AddBatchNorm({"RC", "", {"R=5 C=4 G=1 g=5", "R=6 C=3 G=1 g=6", "R=2 C=6 G=1 g=2"}, {}}, false,
               false, forms);
  AddBatchNorm({"RC",
                "in groups of g rows",
                {"R=7 C=3 G=3 g=3", "R=8 C=4 G=4 g=2", "R=8 C=2 G=2 g=4"},
                {"g"}},
               true, true, forms);
  AddBatchNorm(
      {"RPC", "in groups of g rows", {"R=7 P=2 C=3 G=3 g=3", "R=8 P=3 C=2 G=4 g=2"}, {"g"}}, true,
      false, forms);
  return forms;
}

}  // namespace tessera::operator_tests
