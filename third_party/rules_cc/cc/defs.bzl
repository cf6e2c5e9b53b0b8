"""The rules of C++ under the label that BUILD files load them from.

They are Bazel's own: up to Bazel 7 they are built in, so that nothing needs to be downloaded.
Bazel's own tools load the toolchain rules from here too.
"""

cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
