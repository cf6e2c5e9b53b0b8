#include "strategies/host/plugin_passes.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/program/proto/program_proto.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"
#include "strategies/host/find_plugin.h"
#include "strategies/host/limited_call.h"

namespace tessera {

absl::StatusOr<const Plugin*> LoadedPasses::FindOrLoad(const std::string& name) {
  const auto found = plugins_.find(name);
  if (found != plugins_.end()) return &found->second;
  ASSIGN_OR_RETURN(const PluginFile file, FindPluginOfPlan(name));
  ASSIGN_OR_RETURN(Plugin plugin, Plugin::Load(file.path));
  if (plugin.name() != name) {
    return absl::FailedPreconditionError(
        absl::StrCat("the Plan needs a pass of the strategy plugin '", name, "', and ", file.path,
                     " is the plugin '", plugin.name(), "'"));
  }
  if (note_ && !file.comes_with_program) note_(OriginOf(plugin));
  return &plugins_.emplace(name, std::move(plugin)).first->second;
}

absl::StatusOr<Program> LoadedPasses::Run(const PassChoice::PluginPass& pass,
                                          const Program& program) {
  ASSIGN_OR_RETURN(const Plugin* const plugin, FindOrLoad(pass.name()));
  if (plugin->version() != pass.version()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the Plan was made with version ", Quote(pass.version()), " of strategy ",
                     pass.name(), ", whose pass '", pass.pass(), "' it needs; ", plugin->path(),
                     " is version ", plugin->version()));
  }
  if (!absl::c_linear_search(plugin->passes(), pass.pass())) {
    return absl::FailedPreconditionError(absl::StrCat("the Plan needs pass '", pass.pass(),
                                                      "' of strategy ", pass.name(), ", which ",
                                                      plugin->path(), " does not have"));
  }
  strategy::PassRequest request;
  request.set_name(pass.pass());
  *request.mutable_options() = pass.options();
  *request.mutable_program() = ToProto(program);
  LimitedCall call(context_, options_);
  const absl::StatusOr<std::string> result = call.Run(
      *plugin, {absl::StrCat("`run_pass` of '", pass.pass(), "'"), plugin->table().run_pass},
      request.SerializeAsString());
  if (call.WasStopped(result.status())) {
    return absl::DeadlineExceededError(
        absl::StrCat("pass '", pass.pass(), "' of strategy ", pass.name(), ": took too long"));
  }
  ASSIGN_OR_RETURN(const std::string bytes, result);
  const auto error = [&](absl::string_view fault) {
    return absl::InvalidArgumentError(
        absl::StrCat("pass '", pass.pass(), "' of strategy ", pass.name(), ": ", fault));
  };
  ProgramProto message;
  if (!message.ParseFromString(bytes)) {
    return error(absl::StrCat("returned ", bytes.size(), " bytes that are no Program"));
  }
  absl::StatusOr<Program> made = FromProto(message, catalogue_);
  return made.ok() ? std::move(made) : error(made.status().message());
}

}  // namespace tessera
