/* Data parallel, for models whose inputs are "tokens" and "targets". */
#include <string.h>

#include "strategies/api/strategy.h"

static const char kPlan[] =
    "stages {\n"
    "  mesh { name: \"data\" }\n"
    "  store { path: \"tokens|targets\" layout: \"data: S(0)\" }\n"
    "}\n";

static int32_t MakePlan(const TesseraStrategy* self, const TesseraHost* host, const char* request,
                        size_t request_size, const TesseraSink* result) {
  (void)self, (void)request, (void)request_size;
  return host->read_plan(host, NULL, kPlan, strlen(kPlan), result);
}

static const TesseraStrategy kStrategy = {
    .name = "replicated", .version = "1.0", .make_plan = MakePlan};

const TesseraStrategy* tessera_strategy(void) { return &kStrategy; }
