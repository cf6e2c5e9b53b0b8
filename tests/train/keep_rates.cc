// Lets the programs that a shell test starts find rates of this machine: keep_rates CACHE_FOLDER
// (kept_rates.h).
#include "tests/train/kept_rates.h"

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  tessera::KeepRates(argv[1]);
  return 0;
}
