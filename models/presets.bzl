"""Compiles presets into a model's library, so that a program needs no files beside it."""

def model_presets(name, function, presets):
    """Makes a source file that defines `function`, which a model's header declares.

    Args:
      name: of the target, to be listed in the library's srcs.
      function: name of a function `std::vector<Preset> function()` of namespace tessera.
      presets: names, the default first. Each has a file presets/NAME.textproto.
    """
    files = ["presets/%s.textproto" % preset for preset in presets]
    native.genrule(
        name = name,
        srcs = files,
        outs = [name + ".cc"],
        cmd = "{ " + "".join([
            "echo '#include \"core/model/model.h\"';",
            "echo 'namespace tessera {';",
            "echo 'std::vector<Preset> %s();';" % function,
            "echo 'std::vector<Preset> %s() {';" % function,
            "echo '  return {';",
        ] + [
            ("echo '{\"%s\", R\"textproto(';" % preset) +
            ("cat $(location %s);" % file) +
            "echo ')textproto\"},';"
            for preset, file in zip(presets, files)
        ] + [
            "echo '  };';",
            "echo '}';",
            "echo '}  // namespace tessera';",
        ]) + " } >$@",
    )
