#include "tests/plans/random/judge.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/posix/child_process.h"
#include "core/posix/file_descriptor.h"
#include "core/status/check.h"

namespace tessera {
namespace {

// The last words of a process: what it has written to stderr.
class Stderr {
 public:
  Stderr() : file_(memfd_create("stderr", MFD_CLOEXEC)) {}

  // Called in the process that writes.
  void Redirect() const { dup2(file_.get(), STDERR_FILENO); }

  // Returns the last line that is none of a stack trace.
  std::string LastLine() const {
    std::string text(1 << 16, '\0');
    const ssize_t size = pread(file_.get(), text.data(), text.size(), 0);
    text.resize(size < 0 ? 0 : size);
    std::string last;
    for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
      if (line[0] != ' ' && line[0] != '*' && line[0] != '@') last = std::string(line);
    }
    return last;
  }

 private:
  FileDescriptor file_;
};

char Encoded(OutcomeKind kind) { return static_cast<char>('a' + static_cast<int>(kind)); }
OutcomeKind Decoded(char kind) { return static_cast<OutcomeKind>(kind - 'a'); }

}  // namespace

std::vector<Outcome> Judge(absl::Span<const PlanCase> plans,
                           const std::function<Outcome(const PlanCase&)>& check, double seconds) {
  std::vector<Outcome> outcomes;
  while (outcomes.size() < plans.size()) {
    const Stderr standard_error;
    const size_t first = outcomes.size();
    auto child = ChildProcess::Start([&](ChildProcess::Parent& parent) {
      standard_error.Redirect();
      for (size_t i = first; i < plans.size(); ++i) {
        const Outcome outcome = check(plans[i]);
        parent.Send(Encoded(outcome.kind), outcome.message);
      }
    });
    TESSERA_CHECK(child.ok()) << child.status();
    ChildProcess::Event event = ChildProcess::Event::kMessage;
    while (outcomes.size() < plans.size() && event == ChildProcess::Event::kMessage) {
      const auto limit = std::chrono::duration_cast<ChildProcess::Clock::duration>(
          std::chrono::duration<double>(seconds));
      ChildProcess::Message message;
      event = (*child)->Receive(ChildProcess::Clock::now() + limit, &message);
      if (event == ChildProcess::Event::kMessage) {
        outcomes.push_back({Decoded(message.kind), std::move(message.bytes)});
      } else if (event == ChildProcess::Event::kTimeOut) {
        outcomes.push_back({OutcomeKind::kHang, absl::StrCat("more than ", seconds, " s")});
      } else {
        const std::string end = (*child)->End();
        outcomes.push_back(
            {OutcomeKind::kCrash, absl::StrCat(end, " ", standard_error.LastLine())});
      }
    }
  }
  return outcomes;
}

}  // namespace tessera
