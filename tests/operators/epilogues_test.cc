// Compares kernels that run elementwise operators on a product before it is stored with the
// reference, which runs the operators one by one.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "gtest/gtest.h"
#include "tests/operators/backends.h"
#include "tests/operators/cases.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {
namespace {

constexpr double kRoundings = 48;
constexpr int64_t kMostElements = 20000;

Epilogue AddOf() { return {"add", {}, 1}; }
Epilogue Activation(absl::string_view approximate) {
  return {"gelu", {{"approximate", std::string(approximate)}}, 0};
}

// A chain of epilogues, with the shapes of their operands for a given shape of the product.
struct Chain {
  std::string name;
  std::vector<Epilogue> epilogues;
  std::vector<Shape> (*added)(const Shape& product);
};

Shape RowOf(const Shape& product) { return {product.back()}; }
std::vector<Shape> Nothing(const Shape& /*product*/) { return {}; }
std::vector<Shape> Row(const Shape& product) { return {RowOf(product)}; }
std::vector<Shape> Same(const Shape& product) { return {product}; }
std::vector<Shape> RowAndSame(const Shape& product) { return {RowOf(product), product}; }

std::vector<Chain> Chains() {
  return {
      {"bias", {AddOf()}, Row},
      {"residual", {AddOf()}, Same},
      {"relu", {{"relu", {}, 0}}, Nothing},
      {"gelu", {Activation("none")}, Nothing},
      {"gelu by tanh", {Activation("tanh")}, Nothing},
      {"bias, relu", {AddOf(), {"relu", {}, 0}}, Row},
      {"bias, gelu", {AddOf(), Activation("none")}, Row},
      {"bias, gelu by tanh", {AddOf(), Activation("tanh")}, Row},
      {"bias, residual", {AddOf(), AddOf()}, RowAndSame},
      {"bias, residual, gelu", {AddOf(), AddOf(), Activation("tanh")}, RowAndSame},
  };
}

class EpiloguesTest : public ::testing::Test {
 protected:
  // Computes the product, and then each epilogue, as separate operators.
  std::vector<double> Expected(const PreparedCase& prepared, const Chain& chain,
                               const std::vector<std::vector<double>>& added) {
    const TensorType type{DType::kF64, prepared.outputs[0].shape};
    std::vector<Array> values =
        Run(*prepared.op, prepared.attributes, InputArrays(prepared, *reference_), type);
    const std::vector<Shape> shapes = chain.added(type.shape);
    size_t next = 0;
    for (const Epilogue& epilogue : chain.epilogues) {
      std::vector<Array> inputs = {values[0]};
      for (int i = 0; i < epilogue.extra_inputs; ++i, ++next) {
        inputs.push_back(MakeArray({DType::kF64, shapes[next]}, added[next]));
      }
      values = Run(*FindOperator(epilogue.op), epilogue.attributes, inputs, type);
    }
    return Values(values[0]);
  }

  std::vector<Array> Run(const Operator& op, const Attributes& attributes,
                         const std::vector<Array>& inputs, const TensorType& type) {
    auto outputs = RunOperator(*reference_, op, attributes, inputs, {type});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? *std::move(outputs) : std::vector<Array>{MakeArray(type)};
  }

  // Returns how many kernels accepted the chain.
  int CheckChain(Backend& backend, const PreparedCase& prepared, const Chain& chain) {
    KernelRequest request =
        RequestFor(backend, *prepared.op, prepared.attributes, prepared.inputs, prepared.outputs);
    request.epilogues = chain.epilogues;
    std::vector<Array> inputs = InputArrays(prepared, backend);
    std::vector<std::vector<double>> added;
    for (const Shape& shape : chain.added(prepared.outputs[0].shape)) {
      request.inputs.push_back({prepared.outputs[0].dtype, shape});
      added.emplace_back(NumElements(shape));
      for (size_t i = 0; i < added.back().size(); ++i) {
        added.back()[i] = static_cast<double>(i * 37 % 101) / 32 - 1.5;
      }
      inputs.push_back(MakeArray(request.inputs.back(), added.back()));
    }
    const std::vector<const Kernel*> kernels = CandidateKernels(backend, request);
    for (const Kernel* kernel : kernels) {
      SCOPED_TRACE(absl::StrCat("kernel ", std::string(kernel->name())));
      std::vector<Array> outputs = {MakeArray(request.outputs[0])};
      const absl::Status status =
          RunKernel(backend, *kernel, request, inputs, absl::MakeSpan(outputs));
      EXPECT_TRUE(status.ok()) << status;
      // A GELU can be small although its product is not.
      EXPECT_EQ(Difference(outputs[0], Expected(prepared, chain, added),
                           kRoundings * UnitRoundoff(request.outputs[0].dtype),
                           /*magnitude=*/1),
                "");
    }
    return static_cast<int>(kernels.size());
  }

  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

TEST_F(EpiloguesTest, AgreeWithOperatorsOneByOne) {
  for (const std::unique_ptr<Backend>& backend : BackendsUnderTest()) {
    int taken = 0;
    for (const Case& use : CasesOf("matmul")) {
      const auto prepared = Prepare(use, *reference_);
      ASSERT_TRUE(prepared.ok()) << prepared.status();
      if (prepared->elements() > kMostElements) continue;
      for (const Chain& chain : Chains()) {
        SCOPED_TRACE(absl::StrCat(use.name, " + ", chain.name));
        taken += CheckChain(*backend, *prepared, chain);
      }
    }
    EXPECT_GT(taken, 0) << "no kernel of '" << backend->name() << "' takes any epilogue";
  }
}

// Returns the elementwise operators of one input, with all attributes of their cases. Any of them
// may follow a product without another operand.
std::vector<Epilogue> Activations() {
  std::vector<Epilogue> activations;
  std::set<std::string> keys;
  const std::vector<TensorType> types = {{DType::kF32, {3, 5}}};
  for (const Operator* op : AllOperators()) {
    for (const Case& use : CasesOf(op->name())) {
      if (use.inputs.size() != 1) continue;
      const auto outputs = op->InferTypes(types, use.attributes);
      if (!outputs.ok() || *outputs != types) continue;
      // An operator that can be split along every dimension computes each element independently.
      const OpTypes op_types{types, *outputs, use.attributes};
      std::set<std::string> signatures;
      for (const Signature& signature : op->Signatures(op_types)) {
        signatures.insert(signature.ToString());
      }
      const bool elementwise =
          signatures.count("S(0) -> S(0)") + signatures.count("S(1) -> S(1)") == 2;
      if (!elementwise || op->InPlace(op_types).empty()) continue;
      if (keys.insert(absl::StrCat(op->name(), use.attributes.ToString())).second) {
        activations.push_back({std::string(op->name()), use.attributes, 0});
      }
    }
  }
  return activations;
}

// Checks that results have the same bits whether or not operators were fused.
TEST_F(EpiloguesTest, AnActivationHasTheBitsOfItsOperator) {
  const auto prepared = Prepare(CasesOf("matmul").front(), *reference_);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const std::vector<Epilogue> activations = Activations();
  EXPECT_GE(activations.size(), 12u);
  for (const std::unique_ptr<Backend>& backend : BackendsUnderTest()) {
    KernelRequest product = RequestFor(*backend, *prepared->op, prepared->attributes,
                                       prepared->inputs, prepared->outputs);
    const std::vector<Array> inputs = InputArrays(*prepared, *backend);
    for (const Epilogue& activation : activations) {
      SCOPED_TRACE(absl::StrCat(activation.op, activation.attributes.ToString()));
      KernelRequest fused = product;
      fused.epilogues = {activation};
      const std::vector<const Kernel*> kernels = CandidateKernels(*backend, fused);
      EXPECT_FALSE(kernels.empty())
          << "no kernel of matmul on '" << backend->name() << "' runs '" << activation.op
          << "' as an epilogue: the traits of its own kernel must say that it is elementwise";
      for (const Kernel* kernel : kernels) {
        std::vector<Array> alone = {MakeArray(product.outputs[0])}, together = alone;
        ASSERT_TRUE(RunKernel(*backend, *kernel, product, inputs, absl::MakeSpan(alone)).ok());
        ASSERT_TRUE(RunKernel(*backend, *kernel, fused, inputs, absl::MakeSpan(together)).ok());
        const auto activated = RunOperator(*backend, *FindOperator(activation.op),
                                           activation.attributes, alone, product.outputs);
        ASSERT_TRUE(activated.ok()) << activated.status();
        EXPECT_TRUE(Bits(together[0]) == Bits((*activated)[0])) << "kernel " << kernel->name();
      }
    }
  }
}

}  // namespace
}  // namespace tessera::operator_tests
