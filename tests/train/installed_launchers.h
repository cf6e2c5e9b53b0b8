// Launchers of ranks that may be installed on this machine.
#ifndef TESSERA_TESTS_TRAIN_INSTALLED_LAUNCHERS_H_
#define TESSERA_TESTS_TRAIN_INSTALLED_LAUNCHERS_H_

#include <string>
#include <vector>

#include "tests/train/program.h"

namespace tessera {

struct InstalledLauncher {
  std::string name;
  std::string program;             // "" if it is not installed
  std::vector<std::string> flags;  // all but the number of ranks
  std::string ranks_flag;          // before the number

  // Returns its arguments that start `ranks` ranks of the training program with these flags.
  std::vector<std::string> Arguments(int ranks, const std::vector<std::string>& training) const;
};

// Returns torchrun and mpirun, each installed or not.
std::vector<InstalledLauncher> InstalledLaunchers();

// Returns the environment in which they run, for root too.
RunOptions InstalledLauncherOptions();

}  // namespace tessera

#endif  // TESSERA_TESTS_TRAIN_INSTALLED_LAUNCHERS_H_
