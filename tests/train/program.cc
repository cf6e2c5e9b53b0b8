#include "tests/train/program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "core/train/record/testing/read_events.h"
#include "gtest/gtest.h"
#include "tests/train/kept_rates.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string NewPath(const std::string& name) {
  static std::atomic<int> count{0};
  return ::testing::TempDir() + name + "_" + std::to_string(getpid()) + "_" +
         std::to_string(count++);
}

// Returns the loss of each step, as TensorBoard takes them from a run's event files: the start of a
// later one drops the steps that it repeats.
std::map<int64_t, float> LossesInEventFiles(const std::string& run_folder) {
  std::map<int64_t, float> losses;
  for (const std::string& path : EventFilesIn(run_folder)) {
    const ReadEvents read = ReadEventFile(path);
    EXPECT_EQ(read.fault, "") << path;
    for (const tensorboard::Event& event : read.events) {
      if (event.session_log().status() == tensorboard::SessionLog::START) {
        losses.erase(losses.lower_bound(event.step()), losses.end());
      }
      if (!event.has_summary()) continue;
      const std::map<std::string, float> scalars = ScalarsIn(event);
      EXPECT_EQ(losses.count(event.step()), 0) << event.step() << " in " << path;
      losses[event.step()] = scalars.at("loss_metrics/global_avg_loss");
    }
  }
  return losses;
}

// Returns the cache folder of all programs of a test, in which they find the machine's rates.
const std::string& CacheFolder() {
  static const std::string* const folder = [] {
    auto* result = new std::string(::testing::TempDir() + "/cache");
    KeepRates(*result);
    return result;
  }();
  return *folder;
}

// Runs in the child process, between fork and exec.
[[noreturn]] void Become(const std::string& program, const std::vector<std::string>& arguments,
                         const RunOptions& options, int out, int err) {
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  setenv("XDG_CACHE_HOME", CacheFolder().c_str(), 1);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(126);
  if (options.file_limit > 0) {
    // Keeps ThreadSanitizer from writing a file above the limit before main.
    setenv("TMPDIR", "/nonexistent", 1);
    const rlimit limit = {static_cast<rlim_t>(options.file_limit),
                          static_cast<rlim_t>(options.file_limit)};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  _exit(127);
}

std::string ProgramOf(const std::string& model) {
  return fs::absolute("models/" + model + "/train").string();
}

}  // namespace

std::string GptProgram() { return ProgramOf("gpt"); }
std::string MlpProgram() { return ProgramOf("mlp"); }
std::string RatingsProgram() { return ProgramOf("ratings"); }
std::string VggProgram() { return ProgramOf("vgg"); }

std::vector<std::string> TinyFlags() {
  return {"--set=model.layers=1,model.heads=2,model.channels=8,model.context=16",
          "--set=optimizer.schedule=constant,optimizer.warmup_steps=0,keep_checkpoints=3",
          "--sequence=16",
          "--batch=4",
          "--threads=1",
          "--sample_tokens=0",
          "--save_every=0",
          "--eval_every=0",
          "--steps=20"};
}

std::vector<std::string> Tiny(const std::vector<std::string>& more) {
  std::vector<std::string> flags = TinyFlags();
  flags.push_back("--data=" + TextFile());
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::string NewFolder() {
  std::string path = NewPath("folder");
  fs::remove_all(path);
  fs::create_directories(path);
  return path;
}

void WriteFile(const std::string& path, const std::string& contents) {
  std::ofstream file(path, std::ios::binary);
  file << contents;
  ASSERT_TRUE(file.flush().good()) << path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string TextFile() {
  static const std::string* const path = [] {
    std::string text;
    for (int i = 0; i < 400; ++i) {
      text += "Line " + std::to_string(i) + " of a small text; its square is " +
              std::to_string(i * i) + ".\n";
    }
    auto* result = new std::string(NewPath("text") + ".txt");
    WriteFile(*result, text);
    return result;
  }();
  return *path;
}

RunningProgram::RunningProgram(const std::string& program,
                               const std::vector<std::string>& arguments, const RunOptions& options)
    : out_path_(NewPath("out")), err_path_(NewPath("err")) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  const int out = open(out_path_.c_str(), flags, 0600);
  const int err = open(err_path_.c_str(), flags, 0600);
  CacheFolder();  // made before the first fork, once
  pid_ = fork();
  if (pid_ == 0) Become(program, arguments, options, out, err);
  close(out);
  close(err);
}

RunningProgram::~RunningProgram() {
  if (ended_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
}

std::string RunningProgram::Out() const { return ReadFile(out_path_); }
std::string RunningProgram::Err() const { return ReadFile(err_path_); }

std::vector<std::string> RunningProgram::OpenFiles() const {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid_) + "/fd")) {
    std::error_code closed;
    paths.push_back(fs::read_symlink(entry.path(), closed).string());
  }
  return paths;
}

void RunningProgram::Signal(int signal) { kill(pid_, signal); }

bool RunningProgram::WaitFor(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!done()) {
    if (!ended_ && wait4(pid_, &status_, WNOHANG, &usage_) == pid_) ended_ = true;
    if (ended_ || std::chrono::steady_clock::now() > end) return done();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Result RunningProgram::Wait() {
  if (!ended_) wait4(pid_, &status_, 0, &usage_);
  ended_ = true;
  Result result;
  result.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  result.signal = WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;
  result.peak_bytes = int64_t{usage_.ru_maxrss} * 1024;
  result.out = Out();
  result.err = Err();
  return result;
}

Result RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                  const RunOptions& options) {
  return RunningProgram(program, arguments, options).Wait();
}

Result Shell(const std::string& command) { return RunProgram("/bin/sh", {"-c", command}); }

std::vector<nlohmann::json> Metrics(const std::string& run_folder) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(ReadFile(run_folder + "/metrics.jsonl"));
  for (std::string line; std::getline(text, line) && !text.eof();) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

std::vector<std::string> Checkpoints(const std::string& run_folder) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(run_folder + "/checkpoints", missing)) {
    const std::string name = entry.path().filename().string();
    if (name[0] != '.') names.push_back(name);
  }
  std::sort(names.rbegin(), names.rend());
  return names;
}

std::string CheckpointName(int64_t step) {
  const std::string digits = std::to_string(step);
  return "step_" + std::string(8 - digits.size(), '0') + digits;
}

std::map<std::string, std::string> FilesIn(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = ReadFile(entry.path().string());
  }
  return files;
}

std::map<std::string, std::string> CheckpointFiles(const std::string& run_folder, int64_t step) {
  return FilesIn(run_folder + "/checkpoints/" + CheckpointName(step));
}

std::map<std::string, std::string> FilesOfUnbrokenRun(int64_t steps,
                                                      const std::vector<std::string>& flags) {
  const std::string folder = NewFolder();
  std::vector<std::string> all = Tiny(flags);
  all.insert(all.end(), {"--out=" + folder, "--steps=" + std::to_string(steps)});
  const Result result = RunProgram(GptProgram(), all);
  EXPECT_EQ(result.code, 0) << result.err;
  return CheckpointFiles(folder, steps);
}

void ExpectStepsTo(int64_t last, const std::string& run_folder) {
  const std::vector<nlohmann::json> metrics = Metrics(run_folder);
  ASSERT_EQ(metrics.size(), last);
  for (int64_t i = 0; i < last; ++i) EXPECT_EQ(metrics[i]["step"], i + 1);
  const std::map<int64_t, float> losses = LossesInEventFiles(run_folder);
  ASSERT_EQ(losses.size(), metrics.size());
  for (const nlohmann::json& line : metrics) {
    EXPECT_EQ(losses.at(line["step"]), line["loss"].get<float>()) << line;
  }
}

}  // namespace tessera
