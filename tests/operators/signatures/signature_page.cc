#include "tests/operators/signatures/signature_page.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/operators/signatures/known_signatures.h"

namespace tessera::operator_tests {

std::string PageHead() {
  return R"(# Layout signatures

A signature of an operator is a combination of layouts, along one axis of a mesh, with which every rank computes
its part of the outputs without communication: `S(0), B -> S(0)`. `B` is broadcast, `S(d)` split along dimension
d, `S(d, u)` in units of u elements, `P` a partial sum; partial maxima, minima and log-sum-exps are `P(max)`,
`P(min)` and `P(lse)`. `B` for all operands is always possible, and is not listed. Units of a signature may be
multiplied by one number. [operators.md](operators.md) says what operators compute, and
[plans.md](plans.md) how a Plan chooses signatures.

`//tests/operators/signatures:signature_space_test` decides the table by trying: it distributes every combination of input
layouts of a use over 2 and over 3 ranks, with partial values drawn at random, runs the reference kernel on each
rank, and compares what the ranks hold with the true outputs. It does so at several sizes, some of which leave
ranks without a part. A declared signature must be right, also together with another one on meshes of two axes. A
right one that is not declared is listed here with the reason, except where a declared one implies it: a rank
takes its split of an input that is `B`, and makes what is `B` or split partial, without communication.

This page is written by

    ./bazelw run //tests/operators/signatures:signature_table

Ranks do communicate inside an operator that is computed "in parts": a layer norm over split columns sums each
rank's columns, completes the sums, and so on. `//tests/operators:in_parts_test` compares what the parts compute
with the operator.

The dimensions of a use are letters. "Tried" is the number of combinations of input layouts whose shards the
operator's shape rule takes; no other can be computed. If there are more than 12000 combinations of layouts, only
those with at most two kinds besides `B` are tried, where splits along one letter are one kind. Partial values of
inputs that a kernel does not read are not tried.

| operator | use | signatures | right, but not declared | sizes | tried |
|---|---|---|---|---|---|
)";
}

std::string RowStart(absl::string_view op) { return absl::StrCat("| `", op, "` | "); }

std::string PageRow(const CaseFamily& family, const DecidedSignatures& decided) {
  std::vector<std::string> declared, missing, sizes;
  for (const NamedSignature& signature : decided.declared) {
    declared.push_back(absl::StrCat("`", signature.ToString(family), "`"));
  }
  for (const NamedSignature& signature : decided.in_parts) {
    declared.push_back(absl::StrCat("`", signature.ToString(family), "` (in parts)"));
  }
  for (const NamedSignature& signature : decided.missing) {
    const std::string text = signature.ToString(family);
    const Reason* reason = ReasonOfMissing(family.op, text);
    missing.push_back(absl::StrCat("`", text, "` (", reason == nullptr ? "?" : reason->name, ")"));
  }
  for (const SizedCase& size : family.cases) sizes.push_back(size.sizes);
  return absl::StrCat(RowStart(family.op), family.shapes, " | ", absl::StrJoin(declared, "<br>"),
                      " | ", absl::StrJoin(missing, "<br>"), " | ", absl::StrJoin(sizes, "<br>"),
                      " | ", decided.combinations, " |\n");
}

std::string PageEnd() {
  std::string text = R"(
## Why some are not declared

| | |
|---|---|
)";
  for (const Reason* reason : AllReasons()) {
    absl::StrAppend(&text, "| ", reason->name, " | ", reason->text, " |\n");
  }
  absl::StrAppend(&text, R"(
## What needs communication

With these layouts of their inputs, ranks compute no output in any layout.

| operator and use | inputs | why |
|---|---|---|
)");
  for (const NeedsCommunication& wanted : AllNeedingCommunication()) {
    absl::StrAppend(&text, "| ", wanted.op, ": ", wanted.shapes, " | `", wanted.inputs, "` | ",
                    wanted.reason, " |\n");
  }
  return text;
}

}  // namespace tessera::operator_tests
