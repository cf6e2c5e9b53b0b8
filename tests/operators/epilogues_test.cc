// Compares kernels that run elementwise operators on a product before it is stored with the
// reference, which runs the operators one by one.
#include <memory>
#include <set>
#include <string>
#include <utility>
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
Epilogue ToF32(int output = 0) { return {"cast", {{"dtype", DType::kF32}}, 0, output}; }
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

// Chains on a product of 16 bits whose result is stored in f32. What is added behind the cast is
// f32.
std::vector<Chain> ChainsStoredInF32() {
  return {
      {"cast", {ToF32()}, Nothing},
      {"bias, cast", {AddOf(), ToF32()}, Row},
      {"cast, sum", {ToF32(), AddOf()}, Same},
      {"bias, cast, sum", {AddOf(), ToF32(), AddOf()}, RowAndSame},
      {"bias, cast, gelu", {AddOf(), ToF32(), Activation("tanh")}, Row},
      {"bias, gelu, cast", {AddOf(), Activation("tanh"), ToF32()}, Row},
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
    const std::vector<Shape> shapes = chain.added(prepared.outputs[0].shape);
    for (const Epilogue& epilogue : chain.epilogues) {
      if (epilogue.op == "cast") request.outputs[0].dtype = DType::kF32;
      if (epilogue.extra_inputs == 0) continue;
      const Shape& shape = shapes[added.size()];
      request.inputs.push_back({request.outputs[0].dtype, shape});
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

  // Returns how many chains on an operator kernels accepted.
  int CheckOperator(Backend& backend, const char* op, DType floats) {
    int taken = 0;
    for (const Case& use : CasesOf(op)) {
      const auto prepared = Prepare(use, *reference_, floats);
      EXPECT_TRUE(prepared.ok()) << prepared.status();
      if (!prepared.ok() || prepared->elements() > kMostElements) continue;
      for (const Chain& chain : Chains()) {
        SCOPED_TRACE(absl::StrCat(use.name, " + ", chain.name));
        taken += CheckChain(backend, *prepared, chain);
      }
    }
    return taken;
  }

  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

TEST_F(EpiloguesTest, AgreeWithOperatorsOneByOne) {
  for (const std::unique_ptr<Backend>& backend : BackendsUnderTest()) {
    for (const char* op : {"matmul", "convolution"}) {
      for (const DType floats : {DType::kF32, DType::kBF16}) {
        EXPECT_GT(CheckOperator(*backend, op, floats), 0)
            << "no kernel of " << op << " on '" << backend->name() << "' takes any epilogue in "
            << DTypeName(floats);
      }
    }
  }
}

TEST_F(EpiloguesTest, StoreProductsOf16BitsInF32) {
  for (const std::unique_ptr<Backend>& backend : BackendsUnderTest()) {
    for (const Case& use : CasesOf("matmul")) {
      for (const DType floats : {DType::kBF16, DType::kF16}) {
        const auto prepared = Prepare(use, *reference_, floats);
        ASSERT_TRUE(prepared.ok()) << prepared.status();
        if (prepared->elements() > kMostElements) continue;
        for (const Chain& chain : ChainsStoredInF32()) {
          SCOPED_TRACE(absl::StrCat(use.name, " + ", chain.name));
          const bool empty = NumElements(prepared->inputs[0].shape) == 0 ||
                             NumElements(prepared->inputs[1].shape) == 0;
          const int taken = CheckChain(*backend, *prepared, chain);
          EXPECT_TRUE(taken > 0 || (empty && chain.name != "cast"));
        }
      }
    }
  }
}

// The outputs, by operator, that a backend can store in f32 where the operator's inputs have 16
// bits: the gradients of parameters among them.
std::set<std::pair<std::string, int>> StorableInF32() {
  return {{"add", 0},
          {"convolution", 0},
          {"convolution_grad_data", 0},
          {"convolution_grad_weight", 0},
          {"embedding_grad", 0},
          {"layer_norm_grad", 1},
          {"layer_norm_grad", 2},
          {"layer_norm_grad_apply", 1},
          {"layer_norm_grad_apply", 2},
          {"linear_log_sum_exp_grad", 0},
          {"linear_log_sum_exp_grad", 1},
          {"matmul", 0},
          {"reduce_sum", 0}};
}

// Runs a case with outputs stored in f32, and compares these with the reference. Returns whether
// some kernel accepts it.
bool CheckStoredInF32(Backend& reference, Backend& backend, const Case& use,
                      const PreparedCase& prepared, const std::vector<int>& outputs) {
  KernelRequest request =
      RequestFor(backend, *prepared.op, prepared.attributes, prepared.inputs, prepared.outputs);
  const auto default_kernel = DefaultKernel(backend, request);
  EXPECT_TRUE(default_kernel.ok()) << default_kernel.status();
  for (const int output : outputs) {
    request.epilogues.push_back(ToF32(output));
    request.outputs[output].dtype = DType::kF32;
  }
  const std::vector<const Kernel*> kernels = CandidateKernels(backend, request);
  if (kernels.empty()) return false;
  // Otherwise the fusion could choose a kernel that costs more than it saves.
  EXPECT_EQ(kernels[0], *default_kernel);
  const auto expected =
      RunOperator(reference, *prepared.op, prepared.attributes, InputArrays(prepared, reference),
                  prepared.outputs, prepared.regions);
  EXPECT_TRUE(expected.ok()) << expected.status();
  for (const Kernel* kernel : kernels) {
    SCOPED_TRACE(absl::StrCat(request.Key(), " by ", std::string(kernel->name())));
    std::vector<Array> results;
    for (const TensorType& type : request.outputs) results.push_back(MakeArray(type));
    const absl::Status status =
        RunKernel(backend, *kernel, request, InputArrays(prepared, backend),
                  absl::MakeSpan(results), {}, Guard::kEach, prepared.regions);
    EXPECT_TRUE(status.ok()) << status;
    double tolerance = kRoundings * use.condition * UnitRoundoff(DType::kF32);
    if (use.op == "linear_log_sum_exp_grad" && kernel->name() == "onednn_bf16") {
      tolerance += 2 * UnitRoundoff(DType::kBF16);  // of the gradients of logits
    }
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(Difference(results[i], Values((*expected)[i]), tolerance), "") << "output " << i;
    }
    if (!kernel->LibraryWorkspace()) {
      const absl::Status written = CheckWorkspaceIsWritten(
          backend, *kernel, request, InputArrays(prepared, backend), prepared.regions);
      EXPECT_TRUE(written.ok()) << written;
    }
  }
  return true;
}

TEST(StoredInF32, GradientsOfParametersAgreeWithTheReference) {
  const auto reference = MakeReferenceBackend();
  const std::set<std::pair<std::string, int>> expected = StorableInF32();
  for (const std::unique_ptr<Backend>& backend : BackendsUnderTest()) {
    std::set<std::pair<std::string, int>> stored;
    for (const Case& use : AllCases()) {
      if (use.op == "cast") continue;
      for (const DType floats : {DType::kBF16, DType::kF16}) {
        const auto prepared = Prepare(use, *reference, floats);
        ASSERT_TRUE(prepared.ok()) << prepared.status();
        if (prepared->op->is_view() || prepared->op->is_assembly()) continue;
        std::vector<int> together;
        for (size_t i = 0; i < prepared->outputs.size(); ++i) {
          if (prepared->outputs[i].dtype != floats) continue;
          const int output = static_cast<int>(i);
          if (CheckStoredInF32(*reference, *backend, use, *prepared, {output})) {
            together.push_back(output);
            stored.insert({use.op, output});
          } else {
            EXPECT_FALSE(expected.contains({use.op, output})) << use.name;
          }
        }
        if (together.size() > 1) {
          EXPECT_TRUE(CheckStoredInF32(*reference, *backend, use, *prepared, together)) << use.name;
        }
      }
    }
    EXPECT_EQ(stored, expected);
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
