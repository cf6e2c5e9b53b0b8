// How busy other processes keep the cores on which this process runs.
#ifndef TESSERA_CORE_POSIX_LOAD_OF_OTHERS_H_
#define TESSERA_CORE_POSIX_LOAD_OF_OTHERS_H_

#include <string>
#include <vector>

namespace tessera {

// Others that use more than this share of the cores make measured times meaningless.
inline constexpr double kBusyShare = 0.1;

// Counts from its construction on. The system counts in steps of 10 ms, so an interval of less than
// 0.2 s says little. Not thread-safe.
class LoadOfOthers {
 public:
  // `root` stands for "/" in tests.
  explicit LoadOfOthers(std::string root = "");

  // Returns the share of the time of this process's cores that others have used since: between 0
  // (none) and 1 (all of it). What a hypervisor gave to other machines counts as used by others.
  // Returns 0 if the system does not say. `peers` are seconds for which other processes have worked
  // on these cores that do not count as others.
  double Share(double peers = 0) const;
  // Returns the seconds for which this process has worked since.
  double OwnSeconds() const;

 private:
  // The seconds since the start of the system for which the allowed cores have worked, and those
  // for which this process has.
  struct Times {
    double busy = 0, own = 0;
  };
  Times ReadTimes() const;

  const std::string root_;
  const std::vector<int> cores_;
  const double begin_seconds_;
  const Times begin_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_LOAD_OF_OTHERS_H_
