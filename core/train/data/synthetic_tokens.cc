#include "core/train/data/synthetic_tokens.h"

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/model/token_fields.h"
#include "core/status/status_macros.h"

namespace tessera {

SyntheticTokens::SyntheticTokens(int64_t vocabulary, int64_t sequence, int64_t batch, uint64_t seed)
    : vocabulary_(vocabulary),
      sequence_(sequence),
      batch_(batch),
      fields_(TokenFields(sequence, vocabulary)),
      training_(MakeStream(seed, "data.synthetic.train")),
      evaluation_(MakeStream(seed, "data.synthetic.evaluate")) {}

absl::StatusOr<std::unique_ptr<SyntheticTokens>> SyntheticTokens::Create(int64_t vocabulary,
                                                                         int64_t sequence,
                                                                         int64_t batch,
                                                                         uint64_t seed) {
  if (vocabulary < 1 || vocabulary > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot draw tokens from a vocabulary of ",
                                                   vocabulary, ": 1 to 2147483647 would be right"));
  }
  return std::unique_ptr<SyntheticTokens>(new SyntheticTokens(vocabulary, sequence, batch, seed));
}

std::string SyntheticTokens::Fingerprint() const {
  return absl::StrCat("random tokens below ", vocabulary_);
}

absl::Status SyntheticTokens::Read(DataSplit split, size_t field, const Box& box,
                                   absl::Span<char> bytes) const {
  RETURN_IF_ERROR(CheckRead(split, field, box, bytes));
  const RandomStream stream = split == DataSplit::kTrain ? training_ : evaluation_;
  const int64_t first_column = box.start[1] + (fields_[field].name == kTargets ? 1 : 0);
  char* out = bytes.data();
  for (int64_t row = box.start[0]; row < box.start[0] + box.extent[0]; ++row) {
    auto element = static_cast<uint64_t>((row % batch_) * (sequence_ + 1) + first_column);
    PhiloxBlock block = RandomBlock(stream, row / batch_, element / 4);
    for (int64_t i = 0; i < box.extent[1]; ++i) {
      const uint64_t word = block[element % 4];
      const auto token = static_cast<int32_t>((word * static_cast<uint64_t>(vocabulary_)) >> 32);
      std::memcpy(out, &token, sizeof(token));
      out += sizeof(token);
      if (++element % 4 == 0) block = RandomBlock(stream, row / batch_, element / 4);
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
