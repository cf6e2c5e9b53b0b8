// Compares the engine with PyTorch's float64: the reference backend exactly, and the cpu backend
// relative to the distance of PyTorch's own float32.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/language_model.h"
#include "core/runtime/run_graph.h"
#include "gtest/gtest.h"
#include "tests/parity/parity_case.h"
#include "tools/backends/backends.h"

namespace tessera {
namespace {

struct Case {
  std::string name;
  std::string device;
  uint64_t kernels = 0;  // the seed of the kernels of training; 0: the default ones
};

class ParityTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto parity = ParityCase::Read(GetParam().name);
    ASSERT_TRUE(parity.ok()) << parity.status();
    parity_ = *std::move(parity);
    auto backend = MakeBackend(GetParam().device, 2);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }

  Arithmetic arithmetic() const {
    return GetParam().device == "reference" ? Arithmetic::kF64 : Arithmetic::kF32;
  }

  void TrainAllSteps(const std::string& optimizer) {
    const auto trained = TrainCase(parity_, optimizer, arithmetic(), *backend_, GetParam().kernels);
    ASSERT_TRUE(trained.ok()) << trained.status();
    ExpectSameTraining(parity_, optimizer, arithmetic(), *trained);
  }

  ParityCase parity_;
  std::unique_ptr<Backend> backend_;
};

TEST_P(ParityTest, LossAndEveryGradient) { ExpectSameGradients(parity_, arithmetic(), *backend_); }

TEST_P(ParityTest, StepsOfSgd) { TrainAllSteps("sgd"); }

using LanguageParityTest = ParityTest;

TEST_P(LanguageParityTest, Logits) {
  Graph graph("logits");
  graph.SetOutput("logits", parity_.model->AsLanguageModel()->RecordLogits(graph, parity_.batch,
                                                                           parity_.sequence));
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const auto result = RunGraph(graph, *backend_, parity_.Given());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LE(Distance(result->at("logits").values, parity_.state.values("logits")),
            parity_.Bound(arithmetic(), "logits"));
}

using AdamwParityTest = ParityTest;

TEST_P(AdamwParityTest, StepsOfAdamW) { TrainAllSteps("adamw"); }

constexpr const char* kLanguageModels[] = {"gpt_tied", "gpt_untied", "mlp_relu", "mlp_gelu"};
constexpr const char* kVggs[] = {"vgg11", "vgg11_bn", "vgg11_bn_groups"};

std::vector<Case> LanguageCases() {
  std::vector<Case> cases;
  for (const char* name : kLanguageModels) {
    cases.push_back({name, "reference"});
    for (const uint64_t kernels : {0, 1, 2, 3}) cases.push_back({name, "cpu", kernels});
  }
  return cases;
}

std::vector<Case> AllCases() {
  std::vector<Case> cases = LanguageCases();
  for (const char* name : kVggs) {
    cases.push_back({name, "reference"});
    for (const uint64_t kernels : {0, 1, 2}) cases.push_back({name, "cpu", kernels});
  }
  return cases;
}

// AdamW divides each gradient of a VGG by its own size, those that are nearly zero with their
// rounding too, so it is compared in float64 alone.
std::vector<Case> AdamwCases() {
  std::vector<Case> cases = LanguageCases();
  for (const char* name : kVggs) cases.push_back({name, "reference"});
  return cases;
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  const std::string name = c.name + "_" + c.device;
  return c.kernels == 0 ? name : absl::StrCat(name, "_", c.kernels);
}

INSTANTIATE_TEST_SUITE_P(Models, ParityTest, ::testing::ValuesIn(AllCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Models, LanguageParityTest, ::testing::ValuesIn(LanguageCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Models, AdamwParityTest, ::testing::ValuesIn(AdamwCases()), NameOf);

}  // namespace
}  // namespace tessera
