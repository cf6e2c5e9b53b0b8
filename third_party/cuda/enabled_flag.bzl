"""A flag of the command line that is true or false."""

EnabledInfo = provider("Whether CUDA code is built.", fields = ["enabled"])

def _enabled_flag_impl(ctx):
    return EnabledInfo(enabled = ctx.build_setting_value)

enabled_flag = rule(
    implementation = _enabled_flag_impl,
    build_setting = config.bool(flag = True),
)
