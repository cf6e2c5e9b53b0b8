// Edits Plans at random. Checks that each results in an error of one line, or in a run that agrees
// with one process.
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/compile/compile.h"
#include "core/plan/check.h"
#include "core/plan/testing/completion.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "strategies/conformance/compare_training.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

constexpr int kRanks = 4;

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;

// Words of layouts and signatures, and of paths. Edits replace a word by one of the same kind.
const std::vector<std::string>& LayoutWords() {
  static const auto* const words = new std::vector<std::string>{
      "S(0)",   "S(1)", "S(2)", "S(0, 2)", "S(0, 3)", "B",     "P",    "P(lse)",
      "P(max)", "flat", "data", "model",   "replica", "shard", " -> ", ", "};
  return *words;
}
const std::vector<std::string>& PathWords() {
  static const auto* const words = new std::vector<std::string>{
      "*",    "|",     "tokens",    "targets", "wte", "wpe",      "ln_f",   "weight", "bias",
      "attn", "mlp",   "qkv",       "proj",    "fc",  "blocks.0", "blocks", "ln1",    "matmul",
      "0",    "embed", "embedding", "loss",    "add", "adam_m",   ".",      "update"};
  return *words;
}

const std::string& Any(const std::vector<std::string>& words, std::mt19937& random) {
  return words[random() % words.size()];
}

// Replaces or inserts a word of the text at a random position.
std::string EditedText(std::string text, std::mt19937& random) {
  const auto& words = random() % 2 == 0 ? LayoutWords() : PathWords();
  if (text.empty() || random() % 16 == 0) return text + Any(words, random);
  for (int tries = 0; tries < 32; ++tries) {
    const std::string& from = Any(words, random);
    const size_t at = text.find(from, random() % text.size());
    if (at == std::string::npos) continue;
    return text.replace(at, random() % 8 == 0 ? 0 : from.size(), Any(words, random));
  }
  return text;
}

void EditMessage(Message& message, std::mt19937& random);

// Removes, repeats or edits one of the messages or texts of a repeated field.
void EditRepeated(Message& message, const FieldDescriptor* field, std::mt19937& random) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, field);
  const int index = static_cast<int>(random() % size);
  const bool text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  switch (random() % 8) {
    case 0:
      reflection.SwapElements(&message, field, index, size - 1);
      reflection.RemoveLast(&message, field);
      return;
    case 1:
      if (text) {
        reflection.AddString(&message, field, reflection.GetRepeatedString(message, field, index));
      } else {
        reflection.AddMessage(&message, field)
            ->CopyFrom(reflection.GetRepeatedMessage(message, field, index));
      }
      return;
    default:
      if (text) {
        reflection.SetRepeatedString(
            &message, field, index,
            EditedText(reflection.GetRepeatedString(message, field, index), random));
      } else {
        EditMessage(*reflection.MutableRepeatedMessage(&message, field, index), random);
      }
  }
}

// Edits one field that is set, or sets a number, an enumerator or a flag that is not.
void EditMessage(Message& message, std::mt19937& random) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* const field = message.GetDescriptor()->field(
      static_cast<int>(random() % message.GetDescriptor()->field_count()));
  // Flat groups are padded to multiples of that one: ten million elements take gigabytes.
  const int large = field->name() == "split_at_multiples_of" ? 99999 : 9999999;
  const int numbers[] = {0, 1, 2, 3, 4, -1, large};
  const int number = numbers[random() % std::size(numbers)];
  if (field->is_repeated()) {
    const bool edits = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE ||
                       field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    if (edits && reflection.FieldSize(message, field) > 0) EditRepeated(message, field, random);
    return;
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(&message, field,
                           EditedText(reflection.GetString(message, field), random));
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      reflection.SetInt32(&message, field, number);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      reflection.SetInt64(&message, field, number);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      reflection.SetDouble(&message, field, number);
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      reflection.SetEnumValue(&message, field, number);
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (!reflection.HasField(message, field)) break;
      EditMessage(*reflection.MutableMessage(&message, field), random);
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(&message, field, !reflection.GetBool(message, field));
      break;
    default:
      break;
  }
}

// Returns the Plan with one or two edits of its stage.
Plan Edited(Plan plan, std::mt19937& random) {
  for (unsigned left = 1 + random() % 2; left > 0; --left) {
    const std::string before = plan.SerializeAsString();
    while (plan.SerializeAsString() == before) EditMessage(*plan.mutable_stages(0), random);
  }
  return plan;
}

// Returns a training run with optimizer state, whose steps take a few milliseconds.
TrainingRun TinyGpt() {
  TrainingRun run = SmallGpt({.layers = 1,
                              .batch = 4,
                              .sequence = 3,
                              .heads = 2,
                              .head_dim = 3,
                              .vocabulary = 11,
                              .clip_norm = 0.5,
                              .optimizer = "adamw"});
  run.steps = 2;
  return run;
}

struct Counts {
  int refused = 0, run = 0, repeated = 0;
};

class EditedPlansTest : public ::testing::Test {
 protected:
  EditedPlansTest() : run_(TinyGpt()) {
    auto alone = Train(run_, Plan(), 1);
    EXPECT_TRUE(alone.ok()) << alone.status();
    alone_ = *std::move(alone);
  }

  void Check(const Plan& plan) {
    // As the training tool does.
    absl::Status status = CheckPlanForm(plan);
    if (status.ok()) {
      const auto backend = run_.backend();
      const auto compiled = CompileRun(run_.graphs, plan, *backend, kRanks);
      status = compiled.status();
      if (compiled.ok() && !plans_.insert(compiled->plan.SerializeAsString()).second) {
        ++counts_.repeated;
        return;
      }
    }
    if (status.ok()) return ExpectSameRun(plan);
    ++counts_.refused;
    const std::string text = plan.DebugString();
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status << text;
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status << text;
    EXPECT_FALSE(status.message().empty()) << text;
  }

  Counts counts_;

 private:
  void ExpectSameRun(const Plan& plan) {
    ++counts_.run;
    const auto result = Train(run_, plan, kRanks);
    ASSERT_TRUE(result.ok()) << result.status() << plan.DebugString();
    const Difference difference = Compare(alone_, *result);
    EXPECT_LE(difference.relative, 1e-10) << difference.where << plan.DebugString();
  }

  const TrainingRun run_;
  TrainingResult alone_;
  std::set<std::string> plans_;  // completed Plans that were run
};

// Two rows per micro-batch on 4 ranks are padded to one row each, so that a padded slice is as
// large as the tensor.
TEST_F(EditedPlansTest, NothingIsWrittenOverASlice) {
  Check(ParsePlan(R"text(stages {
    mesh { name: "data" } store { path: "tokens" layout: "data: S(0, 2)" }
    parts { graph: "train" micro_batches: 2 } })text"));
  EXPECT_EQ(counts_.run, 1);
}

// TESSERA_EDITS=N sets the number of edits.
TEST_F(EditedPlansTest, AreErrorsOrRunAsOneProcessDoes) {
  const char* const edits = std::getenv("TESSERA_EDITS");
  const int count = edits == nullptr ? 400 : std::atoi(edits);
  std::vector<Plan> plans;
  for (const char* file : kAllPlans) {
    plans.push_back(ReadPlanFile(file));
    PlanPart& part = *plans.back().mutable_stages(0)->add_parts();
    part.set_graph("train");
    part.set_micro_batches(2);
    part.add_recompute("blocks.0");
  }
  plans.push_back(ReadPlanFile(kDataParallel));
  plans.back().mutable_stages(0)->MergeFrom(ParsePlan(R"text(stages {
    slice { path: "blocks.*.mlp.fc.weight" dimension: 0 count: 2 }
    store { path: "blocks.0.mlp.fc.weight[0:12]" layout: "data: S(0)" } })text")
                                                .stages(0));
  std::mt19937 random(20);
  for (int i = 0; i < count && !HasFatalFailure(); ++i) {
    Check(Edited(plans[i % plans.size()], random));
  }
  std::cout << counts_.refused << " refused, " << counts_.run << " run, " << counts_.repeated
            << " complete to one that was run\n";
  EXPECT_GT(counts_.refused, count / 10);
  EXPECT_GT(counts_.run + counts_.repeated, count / 20);
}

}  // namespace
}  // namespace tessera
