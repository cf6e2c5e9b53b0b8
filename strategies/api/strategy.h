/* The interface of strategy plugins, version 2.1.
 *
 * A strategy decides how a model is distributed over ranks: from the run's Graphs it makes a Plan
 * (core/proto/plan.proto). A plugin is a dynamic library that exports one symbol,
 * `tessera_strategy`, and uses nothing of the host but the services that it is passed. This header
 * is C99, so that a plugin may be written in any language and built with any compiler; C++ authors
 * use the kit over it (strategies/api/kit.h).
 *
 * Messages are protocol buffers, as bytes in their binary form; core/proto/strategy.proto says
 * which message each function takes and returns.
 *
 * Ownership. Whoever calls owns what it passes, which is valid until the call returns: requests,
 * sinks, names. A result is put into the caller's sink, which copies it. So nobody frees memory of
 * the other side. What `tessera_strategy` returns, and all that it points to, is constant and valid
 * until the process ends; plugins are never unloaded.
 *
 * Errors. Functions return TESSERA_OK, or another code after they have put a message of one line
 * into the sink: what was wrong, where, and what would be right. No exception leaves a function.
 *
 * Processes. The host loads a plugin once, and then runs each call of a function in a process of
 * its own: a copy of the host's as it is at the call. So what a call writes to memory is not there
 * in the next one, and threads that it has started end when it returns. A call that ends its
 * process (a fault, abort, exit) is an error of the plugin, and the host goes on.
 *
 * Thread safety. The host calls a plugin from one thread at a time, which may be another one in
 * each call. All services may be called by any number of threads, until the call that passed the
 * host returns. They are deterministic: equal requests have equal results.
 *
 * Compatibility. Every struct begins with its size, as the side that made it knows it; 0 in a table
 * of a plugin is the size in version 2.0. Members are only ever appended within a major version
 * (`since`; those without it are of 2.0), and a member that lies beyond the size is absent:
 * TESSERA_HAS says whether a host has a service. A plugin states the least version that it needs,
 * not the one of the header that it was built with. The host refuses a plugin that needs another
 * major version, or a newer minor one than its own.
 *
 * Defaults. In the tables of a plugin, NULL or 0 is the default of every member but those that are
 * marked as required. With designated initialisers this is a strategy:
 *
 *   static const TesseraStrategy kStrategy = {
 *       .name = "mine", .version = "1.0", .make_plan = MakePlan};
 *
 * Loading. Loading a library runs its code, so the host examines the file before: it must export
 * `tessera_strategy`, and have the note below. Neither the file nor a folder above it may belong to
 * another user, or be one that others can write. A Plan names plugins, by name and version, and
 * never a path. The options of a pass come from a Plan too, which may be of someone else: a plugin
 * must not open, or load, what such an option names.
 */
#ifndef TESSERA_STRATEGIES_API_STRATEGY_H_
#define TESSERA_STRATEGIES_API_STRATEGY_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESSERA_STRATEGY_MAJOR 2
#define TESSERA_STRATEGY_MINOR 1

/* The name of the one symbol that a plugin exports. */
#define TESSERA_STRATEGY_SYMBOL "tessera_strategy"

/* NOLINTBEGIN(readability-identifier-naming): names of C */
enum TesseraCode {
  TESSERA_OK = 0,
  TESSERA_INVALID = 1,     /* the request, or an option, does not fit */
  TESSERA_NOT_FOUND = 2,   /* it names something that does not exist */
  TESSERA_INFEASIBLE = 3,  /* no Plan meets a limit; the message ends with the least, in bytes */
  TESSERA_CANCELLED = 4,   /* the host asked the plugin to stop */
  TESSERA_UNSUPPORTED = 5, /* this side does not have the function */
  TESSERA_INTERNAL = 6     /* a defect */
};
/* NOLINTEND(readability-identifier-naming) */

/* Receives the result or the message of one call. */
typedef struct TesseraSink {
  size_t struct_size;
  void* state;
  /* Copies `size` bytes; a second call replaces the first one's. Thread-safe: no. */
  void (*put)(void* state, const char* data, size_t size);
} TesseraSink;

/* A planning context: the Graphs of a run at one batch size, with everything that was computed for
 * them once. NULL stands for that of the run. */
typedef struct TesseraContext TesseraContext;

typedef struct TesseraHost TesseraHost;

/* A service: takes a message, puts a message. */
typedef int32_t (*TesseraService)(const TesseraHost* host, TesseraContext* context,
                                  const char* request, size_t request_size,
                                  const TesseraSink* result);

/* The services of the host. Request -> result, messages of core/proto/strategy.proto. */
struct TesseraHost {
  size_t struct_size;
  int32_t major;
  int32_t minor;
  void* state; /* the host's own */

  /* OpenContext -> nothing. Records the Graphs at another batch size. `*opened` is valid
   * until it is closed, which frees it, at the latest until the call that passed the host returns.
   * If the request leaves the batch open, a Plan that was made in the context may be the result of
   * make_plan; it states its batch (Plan.batch; since 2.1). */
  int32_t (*open_context)(const TesseraHost* host, const char* request, size_t request_size,
                          TesseraContext** opened, const TesseraSink* result);
  void (*close_context)(const TesseraHost* host, TesseraContext* context);

  /* DescribeGraphs (nothing: as recorded) -> RunGraphs. */
  TesseraService graphs;
  /* DescribeOperators -> OperatorDescriptions: signatures, FLOPs, bytes. */
  TesseraService describe_operators;
  /* PriceOperators -> Prices: seconds of operators under signatures. */
  TesseraService price_operators;
  /* PriceCollectives -> Prices. */
  TesseraService price_collectives;
  /* PriceRedistributions -> Prices: of the collectives that lowering chooses. */
  TesseraService price_redistributions;
  /* A Plan in protobuf's text form -> Plan. */
  TesseraService read_plan;
  /* Plan -> Plan, in which every path is listed. */
  TesseraService complete_plan;
  /* LowerPlans -> LoweredPlans: exact memory, bytes and collectives of each candidate,
   * and its estimated time. */
  TesseraService lower_plans;
  /* MakeProgram -> ProgramProto: a Graph's Program under a Plan. */
  TesseraService make_program;
  /* Nothing -> PassDescriptions: the passes that a Plan may name. */
  TesseraService passes;

  /* Progress -> nothing. The best Plan so far is used if the plugin takes too long. */
  TesseraService report_progress;
  /* Whether the plugin shall stop: its time is over, or the user wants to end. 0: no. */
  int32_t (*cancelled)(const TesseraHost* host);
  /* Shows a line to the user. All lines are shown. */
  void (*log)(const TesseraHost* host, const char* line, size_t size);

  /* Explanation -> nothing. Says why the Plan that the call returns is as it is. Since 2.1. */
  TesseraService explain_plan;
};

/* Whether the table behind the pointer has a member: NULL members, and those that lie beyond the
 * table's size, are absent. A plugin asks before it uses a service with a `since`. */
#define TESSERA_HAS(table, member)                                                                 \
  ((size_t)((const char*)(&(table)->member + 1) - (const char*)(table)) <= (table)->struct_size && \
   (table)->member != NULL)

/* An option of a strategy, as users write it: --strategy_options=name=value. */
typedef struct TesseraOption {
  size_t struct_size;
  const char* name; /* required; lower case, digits and underscores */
  /* "bool", "int", "number", "bytes" (such as 25MiB), "text", or the values of a choice with "|"
   * between them: "full|gradients|none". NULL: "text". An int, a number or bytes may have a range,
   * whose bounds belong to it: "int 1..", "number 0..1e9", "bytes 1KiB..1GiB". The host checks
   * values, and passes bytes as a number. */
  const char* type;
  /* As users write it. NULL: "no", 0, "", or the first value of a choice. */
  const char* default_value;
  const char* help; /* one line; NULL: none */
} TesseraOption;

typedef struct TesseraStrategy TesseraStrategy;

/* A function of a plugin: takes a message, puts a message. */
typedef int32_t (*TesseraStrategyFunction)(const TesseraStrategy* strategy, const TesseraHost* host,
                                           const char* request, size_t request_size,
                                           const TesseraSink* result);

struct TesseraStrategy {
  size_t struct_size;
  /* The least version of the interface that the plugin needs. A major version of 0 stands for 2. */
  int32_t needs_major;
  int32_t needs_minor;
  void* state;         /* the plugin's own */
  const char* name;    /* required; "fsdp": lower case, digits and underscores */
  const char* version; /* required; the plugin's own: "1.0" */
  const char* summary; /* one line; NULL: none */
  const TesseraOption* const* options;
  size_t option_count;
  /* Names of the plugin's own passes. */
  const char* const* pass_names;
  size_t pass_count;

  /* Required. PlanRequest -> Plan. The Plan may leave operators open. */
  TesseraStrategyFunction make_plan;
  /* EstimateRequest -> StepCost. NULL: the host estimates. */
  TesseraStrategyFunction estimate;
  /* PassRequest -> ProgramProto. Required if there are passes. */
  TesseraStrategyFunction run_pass;
  /* CheckRequest -> CheckResult. Whether a Plan that was saved still holds for this request. NULL:
   * it does if it fits the limits. Since 2.1. */
  TesseraStrategyFunction check_plan;
};

/* Exported by the plugin. Called once. */
const TesseraStrategy* tessera_strategy(void);
typedef const TesseraStrategy* (*TesseraStrategyEntry)(void);

/* The layout of this version, which later minor versions only append to. */
#if defined(__cplusplus)
#define TESSERA_STATIC_ASSERT(condition, name) static_assert(condition, #name)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define TESSERA_STATIC_ASSERT(condition, name) _Static_assert(condition, #name)
#else
#define TESSERA_STATIC_ASSERT(condition, name) \
  typedef char tessera_assert_##name[(condition) ? 1 : -1]
#endif
#define TESSERA_OFFSET(type, member, offset) \
  TESSERA_STATIC_ASSERT(sizeof(void*) != 8 || offsetof(type, member) == (offset), type##_##member)

/* The note of a plugin, in the ELF section ".note.tessera.strategy": by it the host knows a plugin,
 * and the major version of its messages and tables, without running its code. This header puts one
 * into each C or C++ source that includes it, and a library may have several; a plugin in another
 * language brings one of its own. Tools such as strip keep it. */
#define TESSERA_STRATEGY_NOTE_SECTION ".note.tessera.strategy"
#define TESSERA_STRATEGY_NOTE_NAME "Tessera"
#define TESSERA_STRATEGY_NOTE_TYPE 1

typedef struct TesseraStrategyNote {
  uint32_t name_size;  /* of `name`, with its zero byte */
  uint32_t value_size; /* of `major` and `minor` together */
  uint32_t type;
  char name[8];
  int32_t major; /* of the interface that the plugin was built with */
  int32_t minor;
} TesseraStrategyNote;

#if defined(__clang__) /* its AddressSanitizer would put bytes behind the note */
#define TESSERA_IN_NOTE_SECTION \
  __attribute__((used, aligned(4), section(TESSERA_STRATEGY_NOTE_SECTION), no_sanitize("address")))
#else
#define TESSERA_IN_NOTE_SECTION \
  __attribute__((used, aligned(4), section(TESSERA_STRATEGY_NOTE_SECTION)))
#endif
#if defined(__ELF__)
static const TesseraStrategyNote kTesseraStrategyNote TESSERA_IN_NOTE_SECTION = {
    sizeof(TESSERA_STRATEGY_NOTE_NAME), 2 * sizeof(int32_t),    TESSERA_STRATEGY_NOTE_TYPE,
    TESSERA_STRATEGY_NOTE_NAME,         TESSERA_STRATEGY_MAJOR, TESSERA_STRATEGY_MINOR};
#endif

TESSERA_STATIC_ASSERT(sizeof(TesseraStrategyNote) == 28, TesseraStrategyNote);
TESSERA_STATIC_ASSERT(sizeof(TESSERA_STRATEGY_NOTE_NAME) == 8, TesseraStrategyNote_name);

TESSERA_OFFSET(TesseraSink, put, 16);
TESSERA_OFFSET(TesseraHost, major, 8);
TESSERA_OFFSET(TesseraHost, minor, 12);
TESSERA_OFFSET(TesseraHost, state, 16);
TESSERA_OFFSET(TesseraHost, open_context, 24);
TESSERA_OFFSET(TesseraHost, close_context, 32);
TESSERA_OFFSET(TesseraHost, graphs, 40);
TESSERA_OFFSET(TesseraHost, describe_operators, 48);
TESSERA_OFFSET(TesseraHost, price_operators, 56);
TESSERA_OFFSET(TesseraHost, price_collectives, 64);
TESSERA_OFFSET(TesseraHost, price_redistributions, 72);
TESSERA_OFFSET(TesseraHost, read_plan, 80);
TESSERA_OFFSET(TesseraHost, complete_plan, 88);
TESSERA_OFFSET(TesseraHost, lower_plans, 96);
TESSERA_OFFSET(TesseraHost, make_program, 104);
TESSERA_OFFSET(TesseraHost, passes, 112);
TESSERA_OFFSET(TesseraHost, report_progress, 120);
TESSERA_OFFSET(TesseraHost, cancelled, 128);
TESSERA_OFFSET(TesseraHost, log, 136);
TESSERA_OFFSET(TesseraHost, explain_plan, 144);
TESSERA_OFFSET(TesseraOption, name, 8);
TESSERA_OFFSET(TesseraOption, type, 16);
TESSERA_OFFSET(TesseraOption, default_value, 24);
TESSERA_OFFSET(TesseraOption, help, 32);
TESSERA_OFFSET(TesseraStrategy, needs_major, 8);
TESSERA_OFFSET(TesseraStrategy, needs_minor, 12);
TESSERA_OFFSET(TesseraStrategy, state, 16);
TESSERA_OFFSET(TesseraStrategy, name, 24);
TESSERA_OFFSET(TesseraStrategy, version, 32);
TESSERA_OFFSET(TesseraStrategy, summary, 40);
TESSERA_OFFSET(TesseraStrategy, options, 48);
TESSERA_OFFSET(TesseraStrategy, option_count, 56);
TESSERA_OFFSET(TesseraStrategy, pass_names, 64);
TESSERA_OFFSET(TesseraStrategy, pass_count, 72);
TESSERA_OFFSET(TesseraStrategy, make_plan, 80);
TESSERA_OFFSET(TesseraStrategy, estimate, 88);
TESSERA_OFFSET(TesseraStrategy, run_pass, 96);
TESSERA_OFFSET(TesseraStrategy, check_plan, 104);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESSERA_STRATEGIES_API_STRATEGY_H_ */
