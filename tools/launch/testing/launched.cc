#include "tools/launch/testing/launched.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tessera::comm {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string InThisFolder(const char* name) {
  return absl::StrCat(fs::current_path().string(), "/tools/launch/", name);
}

std::vector<pid_t> ProcessesThat(const std::function<bool(const std::string& folder)>& hold) {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    int pid = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &pid) && pid != getpid() &&
        hold(entry.path().string())) {
      pids.push_back(pid);
    }
  }
  return pids;
}

}  // namespace

Launched::Launched(const std::vector<std::string>& arguments,
                   const std::map<std::string, std::string>& environment, int output) {
  folder_ = absl::StrCat(testing::TempDir(), "/launched.XXXXXX");
  EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  const std::string program = InThisFolder("launch");
  const std::string output_path = folder_ + "/output", error = folder_ + "/error";
  pid_ = fork();
  if (pid_ != 0) return;
  // The environment of a user, not that of the test.
  unsetenv("OMP_NUM_THREADS");
  unsetenv("BUILD_WORKING_DIRECTORY");
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  if (output < 0) output = open(output_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(output, STDOUT_FILENO);
  dup2(open(error.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
  std::vector<char*> pointers = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  _exit(127);
}

Launched::~Launched() {
  if (pid_ != 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::error_code error;
  fs::remove_all(folder_, error);
}

std::string Launched::output() const { return ReadFile(folder_ + "/output"); }
std::string Launched::error() const { return ReadFile(folder_ + "/error"); }

bool Launched::WaitForOutput(const std::string& text) const {
  return Eventually([&] { return absl::StrContains(output(), text); });
}

bool Launched::EndsWithin(double seconds) const {
  siginfo_t info = {};
  return Eventually(
      [&] {
        return waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
      },
      seconds);
}

Ended Launched::Wait() {
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = 0;
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), output(), error()};
}

Ended RunLauncher(const std::vector<std::string>& arguments,
                  const std::map<std::string, std::string>& environment) {
  return Launched(arguments, environment).Wait();
}

std::string TestRank() { return InThisFolder("test_rank"); }

std::vector<pid_t> ProcessesWith(const std::string& text) {
  return ProcessesThat([&](const std::string& folder) {
    return absl::StrContains(ReadFile(folder + "/cmdline"), text);
  });
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  return ProcessesThat([&](const std::string& folder) {
    const std::string stat = ReadFile(folder + "/stat");
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) return false;
    std::istringstream rest(stat.substr(name_end + 1));
    char state = 0;
    pid_t of = 0;
    rest >> state >> of;
    return of == parent && state != 'Z';
  });
}

bool Eventually(const std::function<bool()>& holds, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace tessera::comm
