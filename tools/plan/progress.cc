#include "tools/plan/progress.h"

#include <cstdio>

#include "absl/strings/str_format.h"
#include "core/text/human_units.h"
#include "core/text/text_stream.h"

namespace tessera {

void Progress::Done(const std::string& task) {
  ++done_;
  const Clock::time_point now = Clock::now();
  if (done_ == tasks_ || now - last_ < std::chrono::seconds(1)) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  absl::FPrintF(stderr, "planned %d of %d, %s; %s left\n", done_, tasks_, Printable(task),
                FormatSeconds(seconds / done_ * (tasks_ - done_)));
}

}  // namespace tessera
