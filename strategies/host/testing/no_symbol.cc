// A library that is not a plugin.
extern "C" int something_else() { return 1; }
