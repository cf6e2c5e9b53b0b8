#include "tools/train/setup/note_waste.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/text/counted.h"
#include "tools/train/setup/data_source.h"

namespace tessera {

void NoteWaste(const CommandLine& line, Setup* setup) {
  const int64_t vocabulary = setup->model->vocabulary();
  const bool bytes = setup->config.data().file() != kSyntheticData;
  if (setup->checkpoint == nullptr && bytes && vocabulary > kByteTokens) {
    setup->notes.push_back(absl::StrCat(
        "the tokens of the data are bytes: ", kByteTokens, " of the model's ", vocabulary,
        " outputs are used; --set=model.vocabulary=", kByteTokens, " leaves out the others"));
  }
  const int threads = setup->backend->processor().threads;
  const int cores = setup->ranks.cores;
  if (threads > cores) {
    setup->notes.push_back(absl::StrCat(Counted(threads, "thread"), " on ", Counted(cores, "core"),
                                        setup->ranks.of_host > 1 ? " for each rank" : "",
                                        ": they wait for each other; --threads=", cores,
                                        " is faster"));
  }
  if (setup->ranks.size == 1 && !line.strategy.empty()) {
    setup->notes.push_back(
        absl::StrCat("strategy ", setup->plugin, " has one rank, and so nothing to distribute: ",
                     line.plan_only ? "--ranks=N plans for N ranks" : "--nproc=N starts N ranks"));
  }
}

}  // namespace tessera
