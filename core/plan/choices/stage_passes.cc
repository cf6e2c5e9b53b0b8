#include "core/plan/choices/stage_passes.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/plan/choices/pass_names.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "core/text/nearest_name.h"
#include "core/text/plain_name.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

constexpr absl::string_view kBucketGradients = "bucket_gradients";
constexpr absl::string_view kPrefetchGathers = "prefetch_gathers";
constexpr absl::string_view kLimitGathers = "limit_gathers";
constexpr absl::string_view kOffload = "offload";

constexpr StagePassHelp kHelp[] = {
    {kBucketGradients, "reduces gradients together, in the order in which they become ready"},
    {kPrefetchGathers, "gathers a group while the groups before it are used"},
    {kLimitGathers, "bounds how many gathered groups are in memory"},
    {kOffload, "keeps tensors in host memory while they are not used"},
};

constexpr char kDefaultCap[] = "25MiB";
constexpr char kDefaultFirst[] = "1MiB";
constexpr int32_t kDefaultDistance = 1;
constexpr int32_t kDefaultInFlight = 2;
constexpr char kDefaultTensors[] = "parameters|gradients|optimizer state";

// The name of a pass, and the names of its options, which are fields of PassChoice.
struct PassForm {
  absl::string_view name;
  std::vector<absl::string_view> options;
};

const std::vector<PassForm>& Forms() {
  static const auto* const forms = new std::vector<PassForm>{{kBucketGradients, {"cap", "first"}},
                                                             {kPrefetchGathers, {"distance"}},
                                                             {kLimitGathers, {"in_flight"}},
                                                             {kOffload, {"tensors", "distance"}}};
  return *forms;
}

const PassForm* FindForm(absl::string_view name) {
  const auto it = absl::c_find_if(Forms(), [&](const PassForm& form) { return form.name == name; });
  return it == Forms().end() ? nullptr : &*it;
}

absl::Status CheckOptions(const PassForm& form, const PassChoice& choice) {
  for (const std::string& option : PassOptionsIn(choice)) {
    if (choice.options().empty() && absl::c_linear_search(form.options, option)) continue;
    return absl::InvalidArgumentError(absl::StrCat("it has no option ", Quote(option),
                                                   "; it has the fields ",
                                                   absl::StrJoin(form.options, " and ")));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> BytesOf(absl::string_view option, const std::string& text,
                                const char* otherwise) {
  const absl::StatusOr<int64_t> bytes = ParseBytes(text.empty() ? otherwise : text);
  if (bytes.ok() && *bytes > 0) return *bytes;
  return absl::InvalidArgumentError(absl::StrCat(
      option, ": ", Quote(text), " is no number of bytes above 0; one looks like '25MiB'"));
}

absl::StatusOr<int32_t> CountOf(absl::string_view option, int32_t count, int32_t otherwise) {
  if (count >= 0) return count == 0 ? otherwise : count;
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", count, "; it must be at least 1"));
}

absl::StatusOr<Offload> OffloadOf(const PassChoice& choice) {
  Offload offload;
  ASSIGN_OR_RETURN(offload.distance, CountOf("distance", choice.distance(), kDefaultDistance));
  const std::string tensors = choice.tensors().empty() ? kDefaultTensors : choice.tensors();
  const std::vector<std::string> known = absl::StrSplit(kDefaultTensors, '|');
  bool* const fields[] = {&offload.parameters, &offload.gradients, &offload.optimizer_state};
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(tensors, '|'))) {
    const size_t i = absl::c_find(known, name) - known.begin();
    if (i == known.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors: ", Quote(name), " is none of ", absl::StrJoin(known, ", "),
                       " (with '|' between several)", DidYouMean(name, known)));
    }
    *fields[i] = true;
  }
  return offload;
}

absl::Status Read(const PassForm& form, const PassChoice& choice, StagePasses& passes) {
  RETURN_IF_ERROR(CheckOptions(form, choice));
  if (form.name == kBucketGradients) {
    GradientBuckets buckets;
    ASSIGN_OR_RETURN(buckets.cap_bytes, BytesOf("cap", choice.cap(), kDefaultCap));
    ASSIGN_OR_RETURN(buckets.first_bytes, BytesOf("first", choice.first(), kDefaultFirst));
    passes.bucket_gradients = buckets;
  } else if (form.name == kPrefetchGathers) {
    ASSIGN_OR_RETURN(passes.prefetch_distance,
                     CountOf("distance", choice.distance(), kDefaultDistance));
  } else if (form.name == kOffload) {
    ASSIGN_OR_RETURN(passes.offload, OffloadOf(choice));
  } else {
    ASSIGN_OR_RETURN(passes.gathers_in_flight,
                     CountOf("in_flight", choice.in_flight(), kDefaultInFlight));
  }
  return absl::OkStatus();
}

absl::Status Unknown(const std::string& name) {
  if (absl::c_linear_search(kPassNames, name) || name == kNoPass) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the Plan's stage lists pass '", name,
        "', which a part lists: parts { graph: \"train\" passes { name: \"", name, "\" } }"));
  }
  std::vector<std::string> names;
  for (const PassForm& form : Forms()) names.emplace_back(form.name.data(), form.name.size());
  return absl::InvalidArgumentError(absl::StrCat("the Plan's stage lists pass ", Quote(name),
                                                 "; there are ", absl::StrJoin(names, ", "),
                                                 DidYouMean(name, names)));
}

// Checks how a pass of a plugin is named. A Plan may be of someone else: it chooses among the
// plugins that are installed, and says nothing about where a library is.
absl::Status CheckNames(const PassChoice& choice) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("the Plan's stage lists pass ",
                                                   Quote(choice.name()), " of the strategy plugin ",
                                                   Quote(choice.plugin()), ": ", what));
  };
  if (!IsPlainName(choice.plugin())) {
    return error("a Plan names a plugin by its name and version, never by a path");
  }
  if (IsPlainName(choice.name())) return absl::OkStatus();
  return error("a pass is named by lower case letters, digits and underscores");
}

}  // namespace

absl::Span<const StagePassHelp> StagePassesWithHelp() { return kHelp; }

std::vector<std::string> PassOptionsIn(const PassChoice& choice) {
  std::vector<std::string> options;
  if (!choice.cap().empty()) options.push_back("cap");
  if (!choice.first().empty()) options.push_back("first");
  if (choice.distance() != 0) options.push_back("distance");
  if (choice.in_flight() != 0) options.push_back("in_flight");
  if (!choice.tensors().empty()) options.push_back("tensors");
  for (const OptionValue& option : choice.options()) options.push_back(option.key());
  return options;
}

bool IsStagePass(absl::string_view name) { return FindForm(name) != nullptr; }

bool NeedsMesh(const PassChoice& choice) { return choice.name() != kOffload; }

absl::StatusOr<StagePasses> ReadStagePasses(const Stage& stage) {
  StagePasses passes;
  absl::flat_hash_set<absl::string_view> listed;
  for (const PassChoice& choice : stage.pass()) {
    if (!choice.plugin().empty()) {
      RETURN_IF_ERROR(CheckNames(choice));
      passes.of_plugins.push_back(choice);
      continue;
    }
    const PassForm* form = FindForm(choice.name());
    if (form == nullptr) return Unknown(choice.name());
    absl::Status status = listed.insert(form->name).second
                              ? Read(*form, choice, passes)
                              : absl::InvalidArgumentError("it is listed twice");
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the Plan's pass '", form->name, "': ", status.message()));
    }
  }
  return passes;
}

void CompleteStagePasses(Stage& stage) {
  for (PassChoice& choice : *stage.mutable_pass()) {
    if (!choice.plugin().empty()) continue;
    if (choice.name() == kBucketGradients) {
      if (choice.cap().empty()) choice.set_cap(kDefaultCap);
      if (choice.first().empty()) choice.set_first(kDefaultFirst);
    } else if (choice.name() == kPrefetchGathers) {
      if (choice.distance() == 0) choice.set_distance(kDefaultDistance);
    } else if (choice.name() == kOffload) {
      if (choice.distance() == 0) choice.set_distance(kDefaultDistance);
      if (choice.tensors().empty()) choice.set_tensors(kDefaultTensors);
    } else if (choice.in_flight() == 0) {
      choice.set_in_flight(kDefaultInFlight);
    }
  }
}

}  // namespace tessera
