#include "tests/train/installed_launchers.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace tessera {
namespace {

// Returns a port derived from the process number, which other tests are unlikely to use.
std::string Port() { return std::to_string(20000 + getpid() % 10000); }

std::string FirstOf(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (std::filesystem::exists(file)) return file;
  }
  return "";
}

// Returns the folder that tests/parity/torch_venv.sh makes.
std::string TorchVenv() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) {
    return std::string(cache) + "/tessera/parity-venv";
  }
  // Bazel does not pass $HOME to tests.
  const passwd* const user = getpwuid(getuid());
  return std::string(user == nullptr ? "" : user->pw_dir) + "/.cache/tessera/parity-venv";
}

}  // namespace

std::vector<std::string> InstalledLauncher::Arguments(
    int ranks, const std::vector<std::string>& training) const {
  std::vector<std::string> arguments = flags;
  arguments.push_back(ranks_flag);
  arguments.push_back(std::to_string(ranks));
  arguments.push_back(GptProgram());
  arguments.insert(arguments.end(), training.begin(), training.end());
  return arguments;
}

std::vector<InstalledLauncher> InstalledLaunchers() {
  return {{"torchrun",
           FirstOf({TorchVenv() + "/bin/torchrun", "/usr/local/bin/torchrun", "/usr/bin/torchrun"}),
           {"--no-python", "--master_port", Port()},
           "--nproc_per_node"},
          // By default it kills ranks one second after it has passed on SIGTERM. It waits for all
          // of this time, even if they end earlier.
          {"mpirun",
           FirstOf({"/usr/bin/mpirun", "/usr/local/bin/mpirun"}),
           {"--oversubscribe", "--mca", "odls_base_sigkill_timeout", "5"},
           "-n"}};
}

RunOptions InstalledLauncherOptions() {
  RunOptions options;
  options.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  return options;
}

}  // namespace tessera
