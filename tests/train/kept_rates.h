// Rates of this machine that look as if an earlier run had kept them.
#ifndef TESSERA_TESTS_TRAIN_KEPT_RATES_H_
#define TESSERA_TESTS_TRAIN_KEPT_RATES_H_

#include <string>

namespace tessera {

// Writes rates of this machine, for each number of threads up to that of its cores, into the
// tessera folder of a cache folder (XDG_CACHE_HOME). A program that finds some measures for a tenth
// of a second, else for half a second; and it keeps none that it has measured while other tests
// keep cores busy. The rates are higher than those of common cores, so that no step seems to be
// faster than its limit, which would be measured again.
void KeepRates(const std::string& cache);

}  // namespace tessera

#endif  // TESSERA_TESTS_TRAIN_KEPT_RATES_H_
