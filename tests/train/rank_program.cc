#include "tests/train/rank_program.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

std::string ReadProc(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

std::string PlanFile(const std::string& stage) {
  std::string path = NewFolder() + "/plan.textproto";
  WriteFile(path, "# A comment.\nstages { " + stage + " }\n");
  return path;
}

std::string DocumentedPlan(const std::string& name) {
  return fs::absolute("docs/plans/" + name + ".textproto").string();
}

std::vector<std::string> OnRanks(int ranks, const std::string& plan,
                                 const std::vector<std::string>& more) {
  std::vector<std::string> flags = Tiny({"--nproc=" + std::to_string(ranks), "--plan=" + plan});
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::vector<std::string> OnRanksBy(const std::string& strategy, int ranks,
                                   const std::vector<std::string>& more) {
  std::vector<std::string> flags =
      Tiny({"--nproc=" + std::to_string(ranks), "--strategy=" + strategy});
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

Result LaunchShell(int ranks, const std::string& command) {
  return RunProgram(fs::absolute("tools/launch/launch").string(),
                    {"--nproc=" + std::to_string(ranks), "sh", "-c", command});
}

std::string CommandOf(const std::string& program, const std::vector<std::string>& flags) {
  std::string command = "exec " + program;
  for (const std::string& flag : flags) command += " '" + flag + "'";
  return command;
}

pid_t ProcessOf(int rank, const std::string& mark) {
  const std::string variable = std::string(1, '\0') + "RANK=" + std::to_string(rank) + '\0';
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string path = entry.path().string();
    if (ReadProc(path + "/cmdline").find(mark) == std::string::npos) continue;
    if (ReadProc(path + "/environ").find(variable) != std::string::npos) return std::stoi(name);
  }
  return 0;
}

std::vector<double> Field(const std::string& folder, const std::string& name) {
  std::vector<double> values;
  for (const nlohmann::json& line : Metrics(folder)) {
    if (line.contains(name)) values.push_back(line[name]);
  }
  return values;
}

void ExpectSameMetrics(const std::string& folder, const std::string& expected) {
  for (const char* name : {"step", "loss", "grad_norm", "lr", "eval_loss"}) {
    EXPECT_EQ(Field(folder, name), Field(expected, name)) << name;
  }
}

int CountOf(const std::string& part, const std::string& text) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

int ErrorsOfRanks(const std::string& err) {
  std::istringstream lines(err);
  int errors = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" failed first, ") != std::string::npos) break;
    // Lines of rank 0 have no number before them.
    const size_t number = line[0] == '[' ? line.find("] ") + 2 : 0;
    if (line.compare(number, 7, "error: ") == 0) ++errors;
  }
  return errors;
}

void ExpectOneError(const Result& result, const std::string& part) {
  EXPECT_EQ(result.code, 1) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(part));
  EXPECT_EQ(CountOf("\n", result.err), 1) << result.err;
}

int64_t NewestStep(const std::string& folder) {
  const std::vector<std::string> checkpoints = Checkpoints(folder);
  return checkpoints.empty() ? 0 : std::stoll(checkpoints[0].substr(5));
}

bool HoldsSomethingUnfinished(const std::string& folder) {
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder + "/checkpoints", missing)) {
    if (entry.path().filename().string()[0] == '.') return true;
  }
  return false;
}

int64_t StepGoneOnFrom(const std::string& out) {
  const std::string before = "going on from step ";
  const size_t at = out.find(before);
  return at == std::string::npos ? -1 : std::stoll(out.substr(at + before.size()));
}

}  // namespace tessera
