// A rank for tests: joins the others, and exchanges numbers with them.
//   test_rank [--seconds=X] [--fail=RANK] [--absent=RANK] [--save=X]
// --fail: this rank leaves with an error. --absent: this rank ends without joining. --save: rank 1
// leaves so many seconds after the others.
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "collectives/rendezvous/environment.h"
#include "collectives/rendezvous/rendezvous.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

struct Options {
  double seconds = 30;
  int fail = -1;
  int absent = -1;
  double save = 0;
};

absl::Status ExchangeNumbers(Rendezvous& rendezvous, int rank, int size) {
  StoreClient& store = rendezvous.store();
  RETURN_IF_ERROR(store.Set(absl::StrCat("number/", rank), absl::StrCat(rank * rank)));
  int sum = 0;
  for (int other = 0; other < size; ++other) {
    ASSIGN_OR_RETURN(const std::string value,
                     store.Wait(absl::StrCat("number/", other), kRendezvousTimeout));
    int number = 0;
    if (!absl::SimpleAtoi(value, &number)) return absl::InternalError("no number");
    sum += number;
  }
  absl::PrintF("sum %d of %d ranks\n", sum, size);
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const RankEnvironment environment, ReadRankEnvironment(""));
  if (environment.rank == options.absent) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<Rendezvous> rendezvous,
                   Rendezvous::Join(environment, std::chrono::milliseconds(
                                                     static_cast<int>(options.seconds * 1e3))));
  absl::Status status = environment.rank == options.fail
                            ? absl::InternalError("failed as requested")
                            : ExchangeNumbers(*rendezvous, environment.rank, environment.size);
  if (status.ok() && options.fail >= 0) {
    status = rendezvous->store().Wait("never", kRendezvousTimeout).status();
  }
  if (environment.rank == 1) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.save));
  }
  const absl::Status left = rendezvous->Leave(status);
  return status.ok() ? left : status;
}

}  // namespace
}  // namespace tessera::comm

int main(int argc, char** argv) {
  tessera::comm::Options options;
  for (int i = 1; i < argc; ++i) {
    absl::string_view value = argv[i];
    const bool understood =
        (absl::ConsumePrefix(&value, "--seconds=") && absl::SimpleAtod(value, &options.seconds)) ||
        (absl::ConsumePrefix(&value, "--fail=") && absl::SimpleAtoi(value, &options.fail)) ||
        (absl::ConsumePrefix(&value, "--save=") && absl::SimpleAtod(value, &options.save)) ||
        (absl::ConsumePrefix(&value, "--absent=") && absl::SimpleAtoi(value, &options.absent));
    if (!understood) return 2;
  }
  const absl::Status status = tessera::comm::Run(options);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "error: %s\n", std::string(status.message()));
  return 1;
}
