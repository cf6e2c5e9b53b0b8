"""A repository over a library that the system's package manager has installed.

Headers and libraries lie in the compiler's default folders, so a target is mostly linker options.
The header that names the library's version is an input of every target, so that an upgrade of the
package rebuilds what was built against the old one.
"""

# Stands among a target's linker options for every library whose name starts with `library_prefix`.
ALL_LIBRARIES = "@ALL_LIBRARIES@"

def _all_libraries(rctx):
    libraries = []
    if not rctx.attr.library_prefix:
        return libraries
    for folder in rctx.path("/usr/lib").readdir():
        if folder.basename.endswith("-linux-gnu"):
            for file in folder.readdir():
                name = file.basename
                if name.startswith(rctx.attr.library_prefix) and name.endswith(".so"):
                    libraries.append("-l" + name[len("lib"):-len(".so")])
    return sorted(libraries)

def _system_repository_impl(rctx):
    header = rctx.path("/usr/include/" + rctx.attr.version_header)
    for folder in rctx.path("/usr/include").readdir():
        if not header.exists and folder.basename.endswith("-linux-gnu"):
            header = rctx.path(str(folder) + "/" + rctx.attr.version_header)
    if not header.exists:
        fail("%s is missing: install the Debian package %s (./bazelw does it)" %
             (header, rctx.attr.debian_package))
    rctx.symlink(header, "version/" + header.basename)
    libraries = ", ".join([repr(library) for library in _all_libraries(rctx)])
    for path, content in rctx.attr.files.items():
        rctx.file(path, content.replace(repr(ALL_LIBRARIES), libraries), executable = False)
    for path, target in rctx.attr.symlinks.items():
        rctx.symlink(target, path)

system_repository = repository_rule(
    implementation = _system_repository_impl,
    attrs = {
        "debian_package": attr.string(mandatory = True),
        "files": attr.string_dict(doc = "Path in the repository -> content."),
        "library_prefix": attr.string(),
        "symlinks": attr.string_dict(doc = "Path in the repository -> absolute path."),
        "version_header": attr.string(mandatory = True, doc = "Below /usr/include, or its folder of the machine."),
    },
)

def cc_target(name, linkopts = [], deps = []):
    """The text of a cc_library over a system library."""
    return """
cc_library(
    name = "{name}",
    hdrs = glob(["version/*"], allow_empty = True),
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
    deps = {deps},
)
""".format(name = name, linkopts = repr(linkopts), deps = repr(deps))

def simple_system_library(name, target, debian_package, version_header, linkopts = []):
    """A repository `name` with the single target `target`."""
    system_repository(
        name = name,
        debian_package = debian_package,
        files = {"BUILD.bazel": cc_target(target, linkopts)},
        version_header = version_header,
    )
