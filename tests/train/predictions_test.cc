// Checks --predictions and --mode=predict: the table has each row once, on any ranks, and the
// accuracy that a plain program counts in it is that of the evaluation.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/picture_runs.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kRows = 25, kClasses = 10;

struct Table {
  std::vector<std::string> names;
  std::vector<std::map<std::string, std::string>> rows;
};

std::vector<std::string> SplitAt(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Table ParseTable(const std::string& text) {
  Table table;
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(text.empty() ? '\n' : text.back(), '\n');
  for (const std::string& line : SplitAt(text, '\n')) {
    const std::vector<std::string> values = SplitAt(line, '\t');
    if (table.names.empty()) {
      table.names = values;
      continue;
    }
    EXPECT_EQ(values.size(), table.names.size()) << line;
    table.rows.emplace_back();
    for (size_t i = 0; i < std::min(values.size(), table.names.size()); ++i) {
      table.rows.back()[table.names[i]] = values[i];
    }
  }
  return table;
}

bool IsFloat(const std::string& name) { return name == "probability" || name == "loss"; }

// Expects the same rows, with the same numbers up to their rounding: a rank multiplies matrices of
// other sizes.
void ExpectSameTable(const Table& table, const Table& expected) {
  EXPECT_EQ(table.names, expected.names);
  ASSERT_EQ(table.rows.size(), expected.rows.size());
  for (size_t i = 0; i < table.rows.size(); ++i) {
    for (const std::string& name : expected.names) {
      const std::string &value = table.rows[i].at(name), &other = expected.rows[i].at(name);
      if (IsFloat(name)) {
        EXPECT_NEAR(std::stod(value), std::stod(other), 1e-5) << name << " of row " << i;
      } else {
        EXPECT_EQ(value, other) << name << " of row " << i;
      }
    }
  }
}

// The shares of rows whose label is predicted.
struct Shares {
  double accuracy = 0, top5 = 0, loss = 0;
};

Shares Recount(const Table& table) {
  Shares shares;
  for (const auto& row : table.rows) {
    const std::string& label = row.at("labels");
    shares.accuracy += row.at("class") == label ? 1 : 0;
    for (int i = 1; i <= 5; ++i) {
      shares.top5 += row.at("top5_" + std::to_string(i)) == label ? 1 : 0;
    }
    shares.loss += std::stod(row.at("loss"));
  }
  const auto rows = static_cast<double>(table.rows.size());
  return {shares.accuracy / rows, shares.top5 / rows, shares.loss / rows};
}

// Returns the number that follows a name in a line such as "accuracy 0.4000".
std::string Printed(const std::string& name, const std::string& out) {
  const size_t at = out.find(name + " ");
  EXPECT_NE(at, std::string::npos) << out;
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 1;
  return out.substr(begin, out.find_first_of(" ,", begin) - begin);
}

std::string FourDigits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

// A run of four steps, which tests share.
class PredictionsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new std::string(PictureFolder());
    run_ = new std::string(NewFolder());
    const Result result = RunProgram(
        VggProgram(),
        TinyPictures(*data_, {"--out=" + *run_, "--steps=4", "--set=eval_batches=0"}));
    ASSERT_EQ(result.code, 0) << result.err;
  }

  static Result Use(const std::string& mode, const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--resume=" + *run_, "--mode=" + mode, "--kernels=default"};
    flags.insert(flags.end(), more.begin(), more.end());
    return RunProgram(VggProgram(), flags);
  }

  // Returns the table of an evaluation, whose output must agree with it.
  static Table Evaluated(const std::vector<std::string>& more) {
    const std::string file = NewFolder() + "/rows.tsv";
    std::vector<std::string> flags = more;
    flags.push_back("--predictions=" + file);
    const Result result = Use("evaluate", flags);
    EXPECT_EQ(result.code, 0) << result.err;
    if (result.code != 0) return {};
    EXPECT_THAT(result.out, HasSubstr("\npredictions of 25 pictures: " + file + "\n"));
    Table table = ParseTable(ReadFile(file));
    const Shares shares = Recount(table);
    EXPECT_EQ(Printed("accuracy", result.out), FourDigits(shares.accuracy));
    EXPECT_EQ(Printed("top5", result.out), FourDigits(shares.top5));
    EXPECT_NEAR(std::stod(Printed("eval_loss", result.out)), shares.loss, 1e-4);
    EXPECT_EQ(FilesIn(fs::path(file).parent_path().string()).size(), 1);
    return table;
  }

  static Table Predicted(const std::string& file, const std::vector<std::string>& more) {
    const std::string out = NewFolder() + "/rows.tsv";
    std::vector<std::string> flags = {"--data=" + file, "--predictions=" + out};
    flags.insert(flags.end(), more.begin(), more.end());
    const Result result = Use("predict", flags);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? ParseTable(ReadFile(out)) : Table();
  }

  static std::string* data_;
  static std::string* run_;
};

std::string* PredictionsTest::data_ = nullptr;
std::string* PredictionsTest::run_ = nullptr;

TEST_F(PredictionsTest, EachRowOfTheHeldOutDataIsWrittenOnce) {
  const Table table = Evaluated({});
  EXPECT_THAT(table.names,
              ElementsAre("row", "labels", "class", "probability", "top5_1", "top5_2", "top5_3",
                          "top5_4", "top5_5", "loss"));
  ASSERT_EQ(table.rows.size(), kRows);
  for (int i = 0; i < kRows; ++i) {
    const auto& row = table.rows[i];
    EXPECT_EQ(row.at("row"), std::to_string(i));
    EXPECT_EQ(row.at("labels"), std::to_string(i * 7 % kClasses));
    EXPECT_EQ(row.at("class"), row.at("top5_1"));
    const double probability = std::stod(row.at("probability"));
    EXPECT_GE(probability, 1.0 / kClasses);
    EXPECT_LE(probability, 1);
    if (row.at("class") == row.at("labels")) {
      EXPECT_NEAR(std::stod(row.at("loss")), -std::log(probability), 1e-4);
    }
  }
  // The evaluation at the end of the training, in full precision.
  const Shares shares = Recount(table);
  const nlohmann::json last = Metrics(*run_).back();
  EXPECT_EQ(last["eval_accuracy"].get<double>(), shares.accuracy);
  EXPECT_EQ(last["eval_top5"].get<double>(), shares.top5);
  EXPECT_GT(shares.top5, 0);
  EXPECT_LT(shares.accuracy, 1);
}

// The last batch has one row, which one rank has.
TEST_F(PredictionsTest, RanksWriteTheSameTable) {
  const Table alone = Evaluated({});
  for (const char* strategy : {"ddp", "fsdp", "osdp"}) {
    SCOPED_TRACE(strategy);
    ExpectSameTable(Evaluated({"--nproc=3", std::string("--strategy=") + strategy}), alone);
  }
  {
    SCOPED_TRACE("micro-batches");
    ExpectSameTable(Evaluated({"--micro_batches=2"}), alone);
    ExpectSameTable(Evaluated({"--nproc=3", "--strategy=fsdp", "--micro_batches=2"}), alone);
  }
  {
    SCOPED_TRACE("a batch that ranks do not share evenly");
    ExpectSameTable(Evaluated({"--nproc=3", "--strategy=ddp", "--batch=8"}), alone);
  }
  {
    SCOPED_TRACE("logits in two parts");
    const std::string plan = PlanFile(
        "mesh { name: 'data' size: 1 } mesh { name: 'model' } "
        "store { path: 'head.weight' layout: 'model: S(0)' } "
        "compute { path: 'head.matmul' signature: 'model: B, S(0) -> S(1)' }");
    ExpectSameTable(Evaluated({"--nproc=2", "--plan=" + plan}), alone);
  }
}

TEST_F(PredictionsTest, SixteenBitsCountAsTheyEvaluate) { Evaluated({"--dtype=bf16"}); }

TEST_F(PredictionsTest, AnEvaluationOfSomeBatchesWritesTheirRows) {
  const std::string file = NewFolder() + "/rows.tsv";
  const Result result =
      Use("evaluate", {"--predictions=" + file, "--set=eval_batches=1"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(ParseTable(ReadFile(file)).rows.size(), 12);
}

TEST_F(PredictionsTest, PicturesWithoutLabelsArePredicted) {
  const std::string pictures = *data_ + "/t10k-images-idx3-ubyte";
  Table expected = Evaluated({});
  const auto drop = [&](const std::string& name) {
    expected.names.erase(std::find(expected.names.begin(), expected.names.end(), name));
  };
  drop("labels");
  drop("loss");
  const Table alone = Predicted(pictures, {});
  ExpectSameTable(alone, expected);
  ExpectSameTable(Predicted(pictures, {"--nproc=3", "--strategy=fsdp"}), alone);
  // The file is alone in its folder.
  const std::string elsewhere = NewFolder() + "/mine";
  fs::copy_file(pictures, elsewhere);
  ExpectSameTable(Predicted(elsewhere, {"--batch=7"}), alone);
}

TEST_F(PredictionsTest, WithoutAFilePredictionsArePrintedAndNothingElse) {
  const std::string pictures = *data_ + "/t10k-images-idx3-ubyte";
  const Result printed = Use("predict", {"--data=" + pictures, "--batch=6"});
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_EQ(ParseTable(printed.out).rows.size(), kRows);
  EXPECT_THAT(printed.out, StartsWith("row\tclass\t"));
  EXPECT_EQ(printed.err, "note: overridden: batch 12 -> 6\n");
}

TEST_F(PredictionsTest, AnErrorLeavesTheFileAsItWas) {
  const std::string folder = NewFolder(), file = folder + "/rows.tsv";
  WriteFile(file, "former\n");
  const std::string data = PictureFolder();
  fs::resize_file(data + "/t10k-images-idx3-ubyte", 100);
  const Result result = Use("evaluate", {"--predictions=" + file, "--data=" + data});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(FilesIn(folder), (std::map<std::string, std::string>{{"rows.tsv", "former\n"}}));
}

TEST_F(PredictionsTest, ErrorsAreOneLine) {
  const std::string folder = NewFolder();
  const std::string pictures = *data_ + "/t10k-images-idx3-ubyte";
  const auto expect_line = [](const Result& result, const std::string& part) {
    EXPECT_EQ(result.code, 1) << result.out;
    EXPECT_THAT(result.err, AllOf(StartsWith("error: "), HasSubstr(part)));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  const std::string resume = "--resume=" + *run_, file = "--predictions=" + folder + "/rows";
  expect_line(RunProgram(VggProgram(), {resume, file, "--steps=8"}),
              "--predictions=FILE is for --mode=evaluate and --mode=predict");
  expect_line(Use("sample", {file}), "--predictions=FILE is for --mode=evaluate");
  expect_line(Use("predict", {file}), "--mode=predict needs --data=FILE");
  expect_line(RunProgram(VggProgram(), {"--mode=predict", "--data=" + pictures}),
              "--mode=predict needs --resume=DIR");
  expect_line(Use("evaluate", {"--predictions=" + folder}), "cannot write " + folder);
  expect_line(Use("evaluate", {"--predictions=" + folder + "/none/rows"}),
              "cannot write " + folder + "/none/rows");
  expect_line(Use("predict", {file, "--data=" + *data_}), "is a folder: --mode=predict takes");
  expect_line(Use("predict", {file, "--data=" + folder + "/none"}), folder + "/none");
  expect_line(Use("predict", {file, "--data=" + *data_ + "/t10k-labels-idx1-ubyte"}),
              "holds no pictures");
  expect_line(Use("predict", {file, "--data=" + pictures, "--set=model.width=5"}),
              "the model reads pictures u8[6, 5, 1] in each row, and the data have");
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST(PredictionsOfTextTest, AreTheLossOfEachRow) {
  const std::string run = NewFolder(), file = NewFolder() + "/rows.tsv";
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + run, "--steps=4"})).code, 0);
  const std::vector<std::vector<std::string>> jobs = {{}, {"--nproc=3", "--strategy=fsdp"}};
  for (const std::vector<std::string>& more : jobs) {
    std::vector<std::string> flags = {"--resume=" + run, "--mode=evaluate",
                                      "--predictions=" + file};
    flags.insert(flags.end(), more.begin(), more.end());
    const Result result = RunProgram(GptProgram(), flags);
    ASSERT_EQ(result.code, 0) << result.err;
    const Table table = ParseTable(ReadFile(file));
    EXPECT_THAT(table.names, ElementsAre("row", "loss"));
    EXPECT_GT(table.rows.size(), 20 * 4) << "all rows, not those of 20 batches";
    double sum = 0;
    for (const auto& row : table.rows) sum += std::stod(row.at("loss"));
    EXPECT_NEAR(sum / static_cast<double>(table.rows.size()),
                std::stod(Printed("eval_loss", result.out)), 1e-4);
  }
  const Result predicted =
      RunProgram(GptProgram(), {"--resume=" + run, "--mode=predict", "--data=" + TextFile()});
  EXPECT_EQ(predicted.code, 1);
  EXPECT_THAT(predicted.err,
              HasSubstr("--mode=predict: this model predicts nothing of a row alone; "));
}

}  // namespace
}  // namespace tessera
