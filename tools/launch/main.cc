// tools/launch, and the reaper that it starts beside each rank.
#include <string>
#include <vector>

#include "tools/launch/launcher.h"
#include "tools/launch/reaper.h"

int main(int argc, char** argv) {
  if (argc > 0 && std::string(argv[0]) == tessera::comm::kReaperName) {
    return tessera::comm::ReaperMain(argc, argv);
  }
  return tessera::comm::LaunchMain(
      std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
