#include "core/train/checkpoint/shard_cover.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/tensor/random.h"

namespace tessera {
namespace {

// Up to this many shards, all pairs are compared, so that the error can name two that overlap.
constexpr size_t kMostCompared = 500;

// A measure of sets of elements, modulo the prime 2^61 - 1. Each index of each dimension has a
// random weight. The measure of an element is the product of its indices' weights; that of a set is
// the sum over its elements. If shards have the right total size but overlap, they miss other
// elements. Then the difference between the sum of their measures and the measure of the tensor is
// a non-zero polynomial in the weights, with the number of dimensions as its degree. At random
// weights it is 0 with a probability below that degree / 2^61 (Schwartz-Zippel lemma). Comparing
// all pairs of shards would take quadratic time.
class RandomMeasure {
 public:
  explicit RandomMeasure(uint64_t seed) : stream_{seed} {}

  uint64_t Of(const StateShard& shard) const {
    return Subtract(OfFirst(shard.box, shard.end), OfFirst(shard.box, shard.begin));
  }

  static uint64_t Add(uint64_t a, uint64_t b) { return Reduce(a + b); }

 private:
  static constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;

  static uint64_t Reduce(uint64_t a) { return a >= kPrime ? a - kPrime : a; }
  static uint64_t Subtract(uint64_t a, uint64_t b) { return Reduce(a + kPrime - b); }
  static uint64_t Multiply(uint64_t a, uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return Reduce(static_cast<uint64_t>(product & kPrime) + static_cast<uint64_t>(product >> 61));
  }

  // Returns the sum of the weights of a dimension's indices below `index`. Drawing this sum at
  // random makes each weight, a difference of two sums, random too.
  uint64_t Below(size_t dim, int64_t index) const {
    if (index == 0) return 0;
    const PhiloxBlock block = RandomBlock(stream_, dim, static_cast<uint64_t>(index));
    return Reduce(((uint64_t{block[0]} << 32) | block[1]) >> 3);
  }
  uint64_t Between(size_t dim, int64_t begin, int64_t end) const {
    return Subtract(Below(dim, end), Below(dim, begin));
  }

  // Returns the measure of the first `count` elements of a box.
  uint64_t OfFirst(const Box& box, int64_t count) const {
    if (count == 0) return 0;
    // Iterates from the last dimension to the first. `all` is the measure of all elements of the
    // later dimensions, and `first` that of the first `count` % `elements` of them.
    uint64_t all = 1, first = 0;
    for (size_t d = box.start.size(); d-- > 0;) {
      const int64_t extent = box.extent[d], start = box.start[d];
      const int64_t index = count % extent;
      count /= extent;
      const uint64_t weight = Between(d, start + index, start + index + 1);
      first = Add(Multiply(Between(d, start, start + index), all), Multiply(weight, first));
      all = Multiply(Between(d, start, start + extent), all);
    }
    return count > 0 ? all : first;
  }

  const RandomStream stream_;
};

// Returns the error for shards of which some overlap, with two of them if they are found soon.
absl::Status OverlapError(absl::Span<const StateShard> shards) {
  for (size_t i = 0; i < std::min(shards.size(), kMostCompared); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!ShardsOverlap(shards[j], shards[i])) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "its shards ", ShardToString(shards[j]), " and ", ShardToString(shards[i]), " overlap"));
    }
  }
  return absl::InvalidArgumentError("some of its shards overlap");
}

}  // namespace

absl::Status CheckCover(const Shape& shape, absl::Span<const StateShard> shards) {
  const int64_t elements = NumElements(shape);
  int64_t left = elements;
  for (const StateShard& shard : shards) {
    RETURN_IF_ERROR(CheckShard(shard, shape));
    if (shard.size() > left) return OverlapError(shards);
    left -= shard.size();
  }
  if (left > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("its shards hold ", elements - left, " of its ", elements, " elements"));
  }
  if (shards.size() == 1) return absl::OkStatus();
  std::random_device random;
  const RandomMeasure measure((uint64_t{random()} << 32) | random());
  uint64_t sum = 0;
  for (const StateShard& shard : shards) sum = RandomMeasure::Add(sum, measure.Of(shard));
  return sum == measure.Of(FullShard(shape)) ? absl::OkStatus() : OverlapError(shards);
}

}  // namespace tessera
