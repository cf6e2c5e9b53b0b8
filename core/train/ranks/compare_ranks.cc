#include "core/train/ranks/compare_ranks.h"

#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "collectives/rendezvous/rendezvous.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

constexpr char kSeparator = '\0';
// The most bytes of a value that a message shows.
constexpr size_t kShownBytes = 80;

std::string ToText(absl::Span<const RankFact> facts) {
  std::string text;
  for (const RankFact& fact : facts) {
    text += fact.what;
    text += kSeparator;
    text += fact.value;
    text += kSeparator;
  }
  return text;
}

std::vector<RankFact> FromText(absl::string_view text) {
  const std::vector<std::string> fields = absl::StrSplit(text, kSeparator);
  std::vector<RankFact> facts;
  for (size_t i = 0; i + 1 < fields.size(); i += 2) facts.push_back({fields[i], fields[i + 1]});
  return facts;
}

std::string ValueText(const std::optional<std::string>& value) {
  if (!value.has_value()) return "nothing";
  if (value->empty()) return "(none)";
  const std::string text = absl::StrReplaceAll(value->substr(0, kShownBytes), {{"\n", " "}});
  return value->size() > kShownBytes ? absl::StrCat(text, "...") : text;
}

struct Difference {
  std::string what;
  std::optional<std::string> value;  // no value: the fact is missing
  std::optional<std::string> firsts;

  bool operator==(const Difference& other) const {
    return what == other.what && value == other.value;
  }
};

// Returns the first fact in which a rank differs from rank 0.
std::optional<Difference> FirstDifference(const std::vector<RankFact>& first,
                                          const std::vector<RankFact>& other) {
  std::map<std::string, std::string> values, firsts;
  for (const RankFact& fact : other) values[fact.what] = fact.value;
  for (const RankFact& fact : first) {
    firsts[fact.what] = fact.value;
    const auto found = values.find(fact.what);
    if (found == values.end()) return Difference{fact.what, std::nullopt, fact.value};
    if (found->second != fact.value) return Difference{fact.what, found->second, fact.value};
  }
  for (const RankFact& fact : other) {
    if (firsts.count(fact.what) == 0) return Difference{fact.what, fact.value, std::nullopt};
  }
  return std::nullopt;
}

}  // namespace

absl::Status CompareRanks(Ranks& ranks, absl::Span<const RankFact> facts,
                          absl::string_view remedy) {
  if (ranks.size() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, ranks.AllGather(ToText(facts)));
  const std::vector<RankFact> first = FromText(texts[0]);
  std::optional<Difference> difference;
  std::vector<int> differing;
  for (int rank = 1; rank < ranks.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::optional<Difference> its = FirstDifference(first, FromText(texts[rank]));
    if (!its.has_value() || (difference.has_value() && !(*difference == *its))) continue;
    difference = its;
    differing.push_back(rank);
  }
  if (!difference.has_value()) return absl::OkStatus();
  return AgreedError(absl::FailedPreconditionError(
      absl::StrCat(comm::FormatRanks(differing), differing.size() == 1 ? " differs" : " differ",
                   " from rank 0 in ", difference->what, ": ", ValueText(difference->value),
                   ", and rank 0 has ", ValueText(difference->firsts), "; ", remedy)));
}

}  // namespace tessera
