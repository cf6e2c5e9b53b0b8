#include "core/plan/choices/stage_passes.h"

#include <cmath>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/status/status_macros.h"
#include "core/text/plain_name.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

// In the order of the fields of PassChoice, whose names these are.
constexpr StagePassHelp kHelp[] = {
    {"bucket_gradients", "reduces gradients together, in the order in which they become ready"},
    {"prefetch_gathers", "gathers a group while the groups before it are used"},
    {"limit_gathers", "bounds how many gathered groups are in memory"},
    {"offload", "keeps tensors in host memory while they are not used"},
};
static_assert(PassChoice::kBucketGradients == 1 && PassChoice::kPrefetchGathers == 2 &&
              PassChoice::kLimitGathers == 3 && PassChoice::kOffload == 4);

// Fills in the options that a choice leaves out.
void FillInDefaults(PassChoice& choice) {
  if (choice.has_bucket_gradients()) {
    PassChoice::BucketGradients& buckets = *choice.mutable_bucket_gradients();
    if (!buckets.has_cap_mib()) buckets.set_cap_mib(25);
    if (!buckets.has_first_mib()) buckets.set_first_mib(1);
  } else if (choice.has_prefetch_gathers()) {
    if (choice.prefetch_gathers().distance() == 0) {
      choice.mutable_prefetch_gathers()->set_distance(1);
    }
  } else if (choice.has_limit_gathers()) {
    if (choice.limit_gathers().in_flight() == 0) choice.mutable_limit_gathers()->set_in_flight(2);
  } else if (choice.has_offload()) {
    PassChoice::Offload& offload = *choice.mutable_offload();
    if (offload.distance() == 0) offload.set_distance(1);
    if (!offload.tensors().empty()) return;
    offload.add_tensors(PassChoice::Offload::PARAMETERS);
    offload.add_tensors(PassChoice::Offload::GRADIENTS);
    offload.add_tensors(PassChoice::Offload::OPTIMIZER_STATE);
  }
}

// Returns a size in MiB as bytes, rounded up; errors name `field`.
absl::StatusOr<int64_t> BytesOf(absl::string_view field, double mib) {
  const double bytes = std::ceil(mib * 0x1p20);
  if (mib > 0 && bytes < 0x1p62) return static_cast<int64_t>(bytes);
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", mib, " is no number of MiB above 0 and below 2^42"));
}

// Returns `count` if it is positive; errors name `field`.
absl::StatusOr<int32_t> CheckedCount(absl::string_view field, int32_t count) {
  if (count >= 1) return count;
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", count, "; it must be at least 1"));
}

// Returns what an offload choice says; InvalidArgument if an option is out of range.
absl::StatusOr<Offload> OffloadOf(const PassChoice::Offload& choice) {
  Offload offload;
  ASSIGN_OR_RETURN(offload.distance, CheckedCount("distance", choice.distance()));
  for (const int tensors : choice.tensors()) {
    if (!PassChoice::Offload::Tensors_IsValid(tensors)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensors: ", tensors, " is none of PARAMETERS, GRADIENTS and OPTIMIZER_STATE"));
    }
    offload.parameters |= tensors == PassChoice::Offload::PARAMETERS;
    offload.gradients |= tensors == PassChoice::Offload::GRADIENTS;
    offload.optimizer_state |= tensors == PassChoice::Offload::OPTIMIZER_STATE;
  }
  return offload;
}

// Sets the field of `passes` for a choice that has all options.
absl::Status ReadChoice(const PassChoice& choice, StagePasses& passes) {
  if (choice.has_bucket_gradients()) {
    GradientBuckets buckets;
    ASSIGN_OR_RETURN(buckets.cap_bytes, BytesOf("cap_mib", choice.bucket_gradients().cap_mib()));
    ASSIGN_OR_RETURN(buckets.first_bytes,
                     BytesOf("first_mib", choice.bucket_gradients().first_mib()));
    passes.bucket_gradients = buckets;
  } else if (choice.has_prefetch_gathers()) {
    ASSIGN_OR_RETURN(passes.prefetch_distance,
                     CheckedCount("distance", choice.prefetch_gathers().distance()));
  } else if (choice.has_limit_gathers()) {
    ASSIGN_OR_RETURN(passes.gathers_in_flight,
                     CheckedCount("in_flight", choice.limit_gathers().in_flight()));
  } else {
    ASSIGN_OR_RETURN(passes.offload, OffloadOf(choice.offload()));
  }
  return absl::OkStatus();
}

// Checks how a pass of a plugin is named. A Plan may be of someone else: it chooses among the
// plugins that are installed, and says nothing about where a library is.
absl::Status CheckNames(const PassChoice::PluginPass& choice) {
  const auto error = [&](absl::string_view fault) {
    return absl::InvalidArgumentError(absl::StrCat("the Plan's stage lists pass ",
                                                   Quote(choice.pass()), " of the strategy plugin ",
                                                   Quote(choice.name()), ": ", fault));
  };
  if (!IsPlainName(choice.name())) {
    return error("a Plan names a plugin by its name and version, never by a path");
  }
  if (IsPlainName(choice.pass())) return absl::OkStatus();
  return error("a pass is named by lower case letters, digits and underscores");
}

}  // namespace

absl::Span<const StagePassHelp> StagePassesWithHelp() { return kHelp; }

absl::string_view NameOf(const PassChoice& choice) {
  if (choice.has_plugin()) return choice.plugin().pass();
  if (choice.pass_case() == PassChoice::PASS_NOT_SET) return "";
  return kHelp[choice.pass_case() - 1].name;
}

absl::StatusOr<StagePasses> ReadStagePasses(const Stage& stage) {
  StagePasses passes;
  absl::flat_hash_set<int> listed;
  for (PassChoice choice : stage.pass()) {
    if (choice.has_plugin()) {
      RETURN_IF_ERROR(CheckNames(choice.plugin()));
      passes.of_plugins.push_back(choice.plugin());
      continue;
    }
    if (choice.pass_case() == PassChoice::PASS_NOT_SET) {
      const auto name = [](std::string* out, const StagePassHelp& pass) {
        absl::StrAppend(out, pass.name);
      };
      return absl::InvalidArgumentError(
          absl::StrCat("the Plan's stage lists an empty pass; there are ",
                       absl::StrJoin(kHelp, ", ", name), " and plugin"));
    }
    FillInDefaults(choice);
    const absl::Status status = listed.insert(choice.pass_case()).second
                                    ? ReadChoice(choice, passes)
                                    : absl::InvalidArgumentError("it is listed twice");
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the Plan's pass '", NameOf(choice), "': ", status.message()));
    }
  }
  return passes;
}

bool ListsPluginPasses(const Plan& plan) {
  return absl::c_any_of(plan.stages(), [](const Stage& stage) {
    return absl::c_any_of(stage.pass(), [](const PassChoice& pass) { return pass.has_plugin(); });
  });
}

void CompleteStagePasses(Stage& stage) {
  for (PassChoice& choice : *stage.mutable_pass()) FillInDefaults(choice);
}

}  // namespace tessera
