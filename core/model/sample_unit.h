// The unit in which the speed of a model is counted: tokens, pictures.
#ifndef TESSERA_CORE_MODEL_SAMPLE_UNIT_H_
#define TESSERA_CORE_MODEL_SAMPLE_UNIT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/text/counted.h"

namespace tessera {

// Nouns in the singular; the plural adds an "s". A row of a batch has `per_row` units: a sequence
// has tokens, and a picture is a unit itself.
struct SampleUnit {
  std::string row = "sample";
  std::string unit = "sample";
  int64_t per_row = 1;

  // "tokens/s"
  std::string Rate() const { return absl::StrCat(unit, "s/s"); }
  // "tokens_per_second", for programs.
  std::string RateField() const { return absl::StrCat(unit, "s_per_second"); }
  // "16 sequences of 128 tokens", "64 pictures"
  std::string BatchText(int64_t rows) const {
    if (row == unit) return Counted(rows, row);
    return absl::StrCat(Counted(rows, row), " of ", Counted(per_row, unit));
  }
};

}  // namespace tessera

#endif  // TESSERA_CORE_MODEL_SAMPLE_UNIT_H_
