#include "core/train/trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/program/compile.h"

namespace tessera {
namespace {

class TraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Graph graph("train");
    const Tensor x = graph.Input("x", {DType::kF32, {2, 3}});
    const Tensor w = graph.Input("w", {DType::kF32, {4, 3}});
    graph.SetOutput("y", Exp(MatMul(x, w, false, true)));
    auto run = CompileRun({graph}, Plan(), *backend_, {});
    ASSERT_TRUE(run.ok()) << run.status();
    run_ = *std::move(run);
    ASSERT_EQ(program().instructions.size(), 2);
  }

  const Program& program() const { return run_.programs[0]; }

  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  CompiledRun run_;
};

TEST_F(TraceTest, HasASliceForEachInstruction) {
  const std::vector<InstructionTime> ran = {{1'000'000, 3'000'000}, {4'000'000, 4'500'000}};
  const StepTimes times = {500'000, 5'500'000, ran};
  const nlohmann::json trace = nlohmann::json::parse(TraceToJson(program(), times));
  std::vector<nlohmann::json> slices, counters;
  bool named = false;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") slices.push_back(event);
    if (event["ph"] == "C") counters.push_back(event);
    named = named || (event["ph"] == "M" && event["args"]["name"] == "compute");
  }
  EXPECT_TRUE(named);
  ASSERT_EQ(slices.size(), 2);
  EXPECT_EQ(slices[0]["name"], "matmul");
  EXPECT_EQ(slices[0]["ts"], 500);
  EXPECT_EQ(slices[0]["dur"], 2000);
  EXPECT_EQ(slices[0]["args"]["op"], "matmul");
  EXPECT_EQ(slices[0]["args"]["inputs"], (std::vector<std::string>{"f64[2, 3]", "f64[4, 3]"}));
  EXPECT_EQ(slices[0]["args"]["outputs"], (std::vector<std::string>{"f64[2, 4]"}));
  EXPECT_EQ(slices[0]["args"]["flops"], 2 * 2 * 3 * 4);
  EXPECT_EQ(slices[0]["args"]["kernel"], "loops");
  EXPECT_GT(slices[0]["args"]["bytes"], 0);
  EXPECT_EQ(slices[1]["name"], "exp");
  ASSERT_EQ(counters.size(), 2);
  EXPECT_GT(counters[0]["args"]["bytes"], 0);
  EXPECT_LE(counters[0]["args"]["bytes"], run_.arena_bytes);

  EXPECT_DOUBLE_EQ(ShareOutsideKernels(times), 0.5);
}

TEST_F(TraceTest, IsWrittenToAFile) {
  const std::vector<InstructionTime> ran(2);
  const StepTimes times = {0, 0, ran};
  const std::string path = ::testing::TempDir() + "/trace.json";
  ASSERT_TRUE(WriteTrace(program(), times, path).ok());
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), TraceToJson(program(), times));
  const absl::Status status = WriteTrace(program(), times, "/nowhere/trace.json");
  EXPECT_NE(std::string(status.message()).find("/nowhere/trace.json"), std::string::npos);
}

}  // namespace
}  // namespace tessera
