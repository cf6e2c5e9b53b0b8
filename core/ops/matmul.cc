#include "core/ops/matmul.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::B;
using sbp::P;
using sbp::S;

// The positions of the dimensions M, N and K.
struct Dims {
  explicit Dims(absl::Span<const TensorType> inputs, const Attributes& attributes)
      : a_rank(static_cast<int>(inputs[MatMulInput::kA].shape.size())),
        b_rank(static_cast<int>(inputs[MatMulInput::kB].shape.size())),
        contracts(ContractsLeading(attributes)) {
    const int transpose_a = attributes.GetBool("transpose_a") ? 1 : 0;
    const int transpose_b = attributes.GetBool("transpose_b") ? 1 : 0;
    m = a_rank - 2 + transpose_a;
    k_of_a = a_rank - 1 - transpose_a;
    n = b_rank - 1 - transpose_b;
    k_of_b = b_rank - 2 + transpose_b;
  }

  // Returns whether b is one matrix and a's leading dimensions are rows.
  bool leading_are_rows() const { return b_rank == 2 && a_rank > 2 && !contracts; }

  int a_rank, b_rank;
  bool contracts;
  int m, k_of_a;  // dimensions of a
  int n, k_of_b;  // dimensions of b
};

class MatMulOp : public Operator {
  using Input = MatMulInput;

 public:
  absl::string_view name() const override { return "matmul"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"a", "b"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.OneFloatingDType(2));
    RETURN_IF_ERROR(check.MinRank(Input::kA, 2));
    RETURN_IF_ERROR(check.MinRank(Input::kB, 2));
    RETURN_IF_ERROR(check.Has<bool>("transpose_a"));
    RETURN_IF_ERROR(check.Has<bool>("transpose_b"));
    if (attributes.Has("contract_leading")) {
      RETURN_IF_ERROR(check.Has<bool>("contract_leading"));
    }
    const Dims dims(inputs, attributes);
    const Shape& a = inputs[Input::kA].shape;
    const Shape& b = inputs[Input::kB].shape;
    if (dims.contracts &&
        (!attributes.GetBool("transpose_a") || attributes.GetBool("transpose_b"))) {
      return check.Misfit("contract_leading", "false unless a alone is transposed");
    }
    if (dims.leading_are_rows()) {
      if (attributes.GetBool("transpose_a")) {
        return check.Misfit("transpose_a", "false where b is one matrix and a has more dimensions");
      }
    } else if (!absl::c_equal(absl::MakeSpan(a).first(a.size() - 2),
                              absl::MakeSpan(b).first(b.size() - 2))) {
      return check.Misfit(Input::kB,
                          absl::StrCat("of rank 2, or have the leading dimensions of a, ",
                                       TypeToString(inputs[Input::kA])));
    }
    if (b[dims.k_of_b] != a[dims.k_of_a]) {
      return check.Misfit(Input::kB,
                          absl::StrCat("of size ", a[dims.k_of_a], " in dimension ", dims.k_of_b,
                                       ", as a is in dimension ", dims.k_of_a, ": ",
                                       TypeToString(inputs[Input::kA])));
    }
    Shape y(a.begin(), dims.contracts ? a.begin() : a.end() - 2);
    y.push_back(a[dims.m]);
    y.push_back(b[dims.n]);
    return std::vector<TensorType>{{inputs[Input::kA].dtype, std::move(y)}};
  }

  // There are four cases, in which nothing is transposed in memory. If leading dimensions are rows,
  // b's gradient sums over all of them.
  absl::Status Gradient(GradientBuilder& builder) const override {
    const bool transpose_a = builder.attributes().GetBool("transpose_a");
    const bool transpose_b = builder.attributes().GetBool("transpose_b");
    const Tensor a = builder.input(Input::kA), b = builder.input(Input::kB),
                 dy = builder.output_gradient(0);
    if (ContractsLeading(builder.attributes())) {
      if (builder.needed(Input::kA)) {
        builder.SetInputGradient(Input::kA, MatMul(b, dy, false, true));
      }
      if (builder.needed(Input::kB)) builder.SetInputGradient(Input::kB, MatMul(a, dy));
      return absl::OkStatus();
    }
    if (builder.needed(Input::kA)) {
      builder.SetInputGradient(Input::kA, transpose_a ? MatMul(b, dy, transpose_b, true)
                                                      : MatMul(dy, b, false, !transpose_b));
    }
    if (builder.needed(Input::kB)) {
      const bool rows = b.rank() == 2 && a.rank() > 2;
      const Tensor db = rows          ? ContractLeading(transpose_b ? dy : a, transpose_b ? a : dy)
                        : transpose_b ? MatMul(dy, a, true, transpose_a)
                                      : MatMul(a, dy, !transpose_a, false);
      builder.SetInputGradient(Input::kB, db);
    }
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override {
    const Dims dims(types.inputs, types.attributes);
    const double depth =
        dims.contracts
            ? Elements(types.inputs[Input::kA]) / std::max<double>(1, types.outputs[0].shape[0])
            : static_cast<double>(types.inputs[Input::kA].shape[dims.k_of_a]);
    return WithFlops(Operator::Cost(types), 2 * Elements(types.outputs[0]) * depth);
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const Dims dims(types.inputs, types.attributes);
    const int y_rank = dims.contracts ? 2 : dims.a_rank;
    std::vector<Signature> signatures;
    for (int d = 0; d < dims.a_rank - 2; ++d) {
      if (dims.contracts) {
        signatures.push_back({{S(d), S(d)}, {P()}});
        continue;
      }
      signatures.push_back({{S(d), dims.leading_are_rows() ? B() : S(d)}, {S(d)}});
    }
    signatures.push_back({{S(dims.m), B()}, {S(y_rank - 2)}});
    signatures.push_back({{B(), S(dims.n)}, {S(y_rank - 1)}});
    signatures.push_back({{S(dims.k_of_a), S(dims.k_of_b)}, {P()}});
    signatures.push_back({{P(), B()}, {P()}});
    signatures.push_back({{B(), P()}, {P()}});
    return signatures;
  }
};

}  // namespace

const Operator& MatMulOperator() {
  static const MatMulOp op;
  return op;
}

Tensor ContractLeading(Tensor a, Tensor b) {
  return RecordSingleOutput(
      MatMulOperator(), {a, b},
      {{"contract_leading", true}, {"transpose_a", true}, {"transpose_b", false}});
}

Tensor MatMul(Tensor a, Tensor b, bool transpose_a, bool transpose_b) {
  return RecordSingleOutput(MatMulOperator(), {a, b},
                            {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

}  // namespace tessera
