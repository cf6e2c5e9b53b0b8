// Runs the launcher in tests.
#ifndef TESSERA_TOOLS_LAUNCH_TESTING_LAUNCHED_H_
#define TESSERA_TOOLS_LAUNCH_TESTING_LAUNCHED_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tessera::comm {

struct Ended {
  int exit_code = -1;  // 128 and the number of the signal that killed it
  std::string output;
  std::string error;
};

// Started by the constructor, killed by the destructor if it is still there.
class Launched {
 public:
  // `output` is its standard output; -1: a file, which output() reads.
  explicit Launched(const std::vector<std::string>& arguments,
                    const std::map<std::string, std::string>& environment = {}, int output = -1);
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const { return pid_; }
  // Everything that it has written so far.
  std::string output() const;
  std::string error() const;
  // Waits until its standard output has `text`; false if it has not after a long time.
  bool WaitForOutput(const std::string& text) const;
  // Waits until it has ended.
  Ended Wait();
  // Waits until it has ended, or for `seconds`. Returns true if it has ended; Wait does not block
  // then.
  bool EndsWithin(double seconds) const;

 private:
  pid_t pid_ = 0;  // 0 when it has been waited for
  std::string folder_;
};

Ended RunLauncher(const std::vector<std::string>& arguments,
                  const std::map<std::string, std::string>& environment = {});

// The program test_rank.cc, which uses the rendezvous.
std::string TestRank();

// Processes with `text` in their command line, without this one.
std::vector<pid_t> ProcessesWith(const std::string& text);
// Children of a process.
std::vector<pid_t> ChildrenOf(pid_t parent);

// Waits until `holds` returns true; false if it does not within `seconds`.
bool Eventually(const std::function<bool()>& holds, double seconds = 30);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_TESTING_LAUNCHED_H_
