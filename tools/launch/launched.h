// The real launcher, run by tests.
#ifndef TESSERA_TOOLS_LAUNCH_LAUNCHED_H_
#define TESSERA_TOOLS_LAUNCH_LAUNCHED_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tessera::comm {

struct Ended {
  int exit_code = -1;  // 128 and its number for a signal
  std::string output;
  std::string error;
};

// Started by the constructor, killed by the destructor if it is still there.
class Launched {
 public:
  explicit Launched(const std::vector<std::string>& arguments,
                    const std::map<std::string, std::string>& environment = {});
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const { return pid_; }
  // What it has written so far.
  std::string output() const;
  std::string error() const;
  // Whether its standard output has `text` before a long time is over.
  bool WaitForOutput(const std::string& text) const;
  Ended Wait();

 private:
  pid_t pid_ = 0;  // 0 when it has been waited for
  std::string folder_;
};

Ended RunLauncher(const std::vector<std::string>& arguments,
                  const std::map<std::string, std::string>& environment = {});

// A program for ranks that uses the rendezvous: test_rank.cc.
std::string TestRank();

// Processes with `text` in their command line, this one left out.
std::vector<pid_t> ProcessesWith(const std::string& text);
// Children of a process.
std::vector<pid_t> ChildrenOf(pid_t parent);

// Whether `holds` before a long time, or `seconds`, are over.
bool Eventually(const std::function<bool()>& holds, double seconds = 30);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_LAUNCHED_H_
