"""The cases of ./osdp: models on emulated hosts, the rivals of osdp, and limits between theirs."""

import json
import pathlib
import re
import subprocess

from bench import ROOT
from draw import computation_seconds, parameters_of, tokens_of_sequence
from measure import Failed, Programs, command_of, compare_json, model_flags, run_and_follow
from plans import entry, fsdp

NETWORK = {"rate": "1gbit", "bytes_per_second": 1e9 / 8}
DEFAULTS = "fsdp"
# A limit lies between the leanest of FSDP's modes, 0, and the leanest of DDP, 1.
LIMITS = {"tight": 0.15, "middle": 0.5, "loose": 1.0}
# A limit that no rival meets, as a share of what the leanest of them needs.
SLICES = "slices"
BELOW_LEANEST = 0.8

CALIBRATION_ROUNDS = 2
# The seconds to measure prices: for each rival, and in addition for each of its steps.
CALIBRATION_SECONDS = (4, 12)
MOST_CALIBRATIONS = 3
MOST_PLANNINGS = 4
# The share of computation whose prices have to be measured, for a setting to be calibrated.
MEASURED_SHARE = 0.9

# Hosts like the emulated ones, to predict steps that are the same on each machine.
CLUSTER = """name: "hosts of one core, 1 Gbit/s"
f32_flops_per_second: 80e9
memory_bytes_per_second: 15e9
memory_bytes: 8000000000
seconds_per_instruction: 1e-6
ranks_per_host: 1
between_hosts { latency_seconds: 50e-6 bytes_per_second: 117.5e6 }
"""


class PlanningPrograms(Programs):
    """compare, emulate, plan, and the plugin of osdp."""

    TARGETS = ["//tools/compare", "//tools/emulate", "//tools/plan", "//strategies/osdp:osdp.so"]

    def __init__(self, folder):
        super().__init__(folder)
        self.plan = folder / "tools/plan/plan"
        self.osdp = folder / "strategies/osdp/osdp.so"
        for file in (self.plan, self.osdp):
            if not file.is_file():
                raise SystemExit(f"error: there is no {file}")


def rivals(hosts):
    # The models are small, and so are the buckets of a DDP that is set up well for them.
    modes = [entry("DDP", "ddp"), entry("DDP", "ddp:bucket=1MiB"), *fsdp(hosts)]
    return [*modes, entry("FSDP", "fsdp:in_flight=1")]


def setting(name, hosts, batch, limits, model="gpt", **sizes):
    parameters = parameters_of(model, sizes)
    sent = 3 * 4 * parameters * (hosts - 1) / hosts
    guess = batch * computation_seconds(model, sizes) + sent / NETWORK["bytes_per_second"]
    return {
        "name": f"{name}_{hosts}",
        "ranks": hosts,
        "threads": 1,
        "model": model,
        "sizes": sizes,
        "batch": batch,
        "sequence": tokens_of_sequence(model, sizes),
        "clip_norm": 1,
        "parameters": parameters,
        "guessed_seconds": round(guess, 3),
        "plans": rivals(hosts),
        "cases": [{"name": f"{name}_{hosts}_{limit}", "limit": limit} for limit in limits],
    }


def embedding(hosts, limits, layers, vocabulary):
    sizes = {"layers": layers, "heads": 4, "channels": 256, "vocabulary": vocabulary}
    return setting("embedding", hosts, 8, limits, **sizes, context=64)


def deep(hosts, limits, layers):
    sizes = {"layers": layers, "heads": 4, "channels": 192, "vocabulary": 2000}
    return setting("deep", hosts, 8, limits, **sizes, context=64)


def wide(hosts, limits, layers):
    sizes = {"layers": layers, "heads": 6, "channels": 384, "vocabulary": 1000}
    return setting("wide", hosts, 8, limits, **sizes, context=64)


def uneven(hosts, limits, hidden):
    # All blocks of a GPT have the same size; the layers of an MLP need not.
    sizes = {"window": 16, "channels": 64, "hidden": hidden, "vocabulary": 4000}
    return setting("uneven", hosts, 128 * hosts, limits, model="mlp", **sizes)


def all_settings():
    return [
        embedding(2, ["tight", "loose"], layers=4, vocabulary=16000),
        deep(2, ["tight", "middle"], layers=12),
        uneven(2, ["middle", "loose"], hidden=[1536, 384, 1024, 512]),
        embedding(4, ["tight", "middle", SLICES], layers=3, vocabulary=12000),
        deep(4, ["tight", "middle", "loose"], layers=10),
        wide(4, ["tight", "middle"], layers=3),
        uneven(4, ["middle"], hidden=[1280, 320, 896, 512]),
    ]


def short_settings():
    """Returns one tiny setting, for a quick look."""
    sizes = {"layers": 2, "heads": 2, "channels": 64, "vocabulary": 997, "context": 16}
    each = setting("short", 2, 4, ["middle", SLICES], **sizes)
    return [{**each, "plans": [entry("DDP", "ddp"), entry("FSDP", DEFAULTS)]}]


def selected(settings, only, count):
    """Returns the settings with the first `count` cases of `only`, or without these, with all.

    `only` are names of cases or of settings. Raises ValueError if there is none of a name.
    """
    chosen, left = [], count
    for name in only:
        if not any(name in (each["name"], *names_of(each)) for each in settings):
            names = ", ".join(name for each in settings for name in names_of(each))
            raise ValueError(f"there is no case '{name}': the cases are {names}")
    for each in settings:
        cases = [
            case
            for case in each["cases"]
            if not only or each["name"] in only or case["name"] in only
        ][:left]
        if left is not None:
            left -= len(cases)
        if cases:
            chosen.append({**each, "cases": cases})
    return chosen


def names_of(each):
    return [case["name"] for case in each["cases"]]


def calibration_work(each):
    first, by_step = CALIBRATION_SECONDS
    plans = len(each["plans"]) + (MOST_PLANNINGS - 1) * len(each["cases"])
    return plans * (first + by_step * each["guessed_seconds"])


def case_plans(cases, folder):
    """Returns the Plans of the cases that have one, as entries of compare."""
    return [
        {"name": case["name"], "entry": f"{case['name']}={folder}/{case['name']}.textproto"}
        for case in cases
        if "fault" not in case
    ]


def calibrate(programs, each, plans, folder):
    """Measures the prices of the Plans' kernels and collectives on the emulated network."""
    command = command_of(programs, each, NETWORK, plans, CALIBRATION_ROUNDS, 0, folder)
    code, errors = run_and_follow(command, lambda line: None)
    compare_json(folder, code, errors)


def plan_command(programs, each, described):
    flags = [flag for flag in model_flags(each) if not flag.startswith(("--data=", "--lr="))]
    command = [programs.plan, *flags, f"--ranks={each['ranks']}"]
    if described:
        return [*command, f"--cluster={described}"]
    # Rank 0 plans, with the prices of the emulated network.
    hosts = [f"--hosts={each['ranks']}", f"--rate={NETWORK['rate']}"]
    first = ["sh", "-c", 'test "$RANK" != 0 || exec "$@"', "plan"]
    names = ",".join(f"host{i}" for i in range(each["ranks"]))
    return [programs.emulate, *hosts, "--", *first, *command, f"--hosts={names}"]


def plan(programs, each, entries, folder, described, more=()):
    """Returns the steps in plan's JSON, and its messages.

    `described` is the file of a cluster; without it, steps are those of the emulated hosts.
    """
    command = plan_command(programs, each, described)
    command += [f"--strategies={','.join(entries)}", f"--json={folder}/plan.json", *more]
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    steps = pathlib.Path(folder) / "plan.json"
    try:
        result = json.loads(steps.read_text())["steps"]
    except (OSError, ValueError):
        lines = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
        reason = lines[-1] if lines else f"plan ends with {done.returncode}"
        raise Failed(reason.removeprefix("error: ")) from None
    steps.unlink()
    return result, done.stdout


def figures(step):
    estimated = step["estimated"]
    share = estimated["measured_seconds"] / estimated["computation_seconds"]
    return {
        "seconds": estimated["step_seconds"],
        "peak_bytes": estimated["peak_bytes"],
        "measured_share": share,
    }


def predict_rivals(programs, each, folder, described=None):
    """Returns the figures of each rival by its name."""
    entries = [rival["entry"] for rival in each["plans"]]
    steps, _ = plan(programs, each, entries, folder, described)
    for step in steps:
        if "fault" in step:
            raise Failed(f"{step['strategy']}: {step['fault']}")
    return {step["strategy"]: figures(step) for step in steps}


def limit_of(each, limit, predicted):
    """Returns the bytes of a limit, from the peaks of the rivals."""

    def leanest(kind):
        return min(predicted[p["name"]]["peak_bytes"] for p in each["plans"] if p["kind"] == kind)

    low, high = leanest("FSDP"), leanest("DDP")
    if limit == SLICES:
        return int(BELOW_LEANEST * min(low, high))
    return int(low + LIMITS[limit] * (high - low))


def plan_case(programs, each, case, predicted, folder, described):
    """Lets osdp plan within the limit of a case. Returns the case with what it has decided.

    Its Plan is in the folder, under the name of the case.
    """
    limit = limit_of(each, case["limit"], predicted)
    more = [f"--memory_limit={limit}", f"--save={folder}/{case['name']}.textproto"]
    if case["limit"] == SLICES:
        more += ["--recompute=none", "--micro_batches=1"]
    case = {**case, "limit_bytes": limit}
    try:
        (step,), messages = plan(programs, each, [f"osdp={programs.osdp}"], folder, described, more)
    except Failed as failed:
        return {**case, "fault": str(failed)}
    if "fault" in step:
        return {**case, "fault": step["fault"]}
    chosen = re.findall(r"strategy osdp: (of .*)", messages)
    text = (pathlib.Path(folder) / f"{case['name']}.textproto").read_text()
    return {
        **case,
        "predicted": figures(step),
        "chosen": chosen[-1] if chosen else "",
        "slices": re.search(r"^ *slice \{", text, re.MULTILINE) is not None,
    }


def plan_setting(programs, each, folder, described=None):
    """Returns the setting with the predictions of rivals and cases, by the prices that are known.

    `described` is as in plan().
    """
    predicted = predict_rivals(programs, each, folder, described)
    cases = [
        plan_case(programs, each, case, predicted, folder, described) for case in each["cases"]
    ]
    return {**each, "predicted": predicted, "cases": cases}


def describe_and_plan(programs, each, folder):
    """Returns plan_setting for CLUSTER."""
    cluster = pathlib.Path(folder) / "cluster.textproto"
    cluster.write_text(CLUSTER)
    return plan_setting(programs, each, folder, cluster)


def calibrate_and_plan(programs, each, folder, report):
    """Returns plan_setting by prices that were measured on the emulated network.

    First those of the rivals; then those of the Plans that osdp makes by them, as long as it makes
    others then, MOST_PLANNINGS times at most: prices of what was never run may be too low, and a
    search finds those. Prices are not kept if other programs were busy: then those of the rivals are
    measured again. If that does not help, the cases say how little was measured. Calls report(text).
    """
    again = ""
    for _ in range(MOST_CALIBRATIONS):
        report(f"{each['name']}: measuring prices{again}")
        calibrate(programs, each, each["plans"], folder)
        known = predict_rivals(programs, each, folder)
        share = min(rival["measured_share"] for rival in known.values())
        if share >= MEASURED_SHARE:
            break
        again = f" again: {100 * share:.0f} % of the computation has any"
    before = []
    for planning in range(MOST_PLANNINGS):
        report(f"{each['name']}: planning")
        planned = plan_setting(programs, each, folder)
        plans = case_plans(planned["cases"], folder)
        texts = [(pathlib.Path(folder) / f"{plan['name']}.textproto").read_text() for plan in plans]
        if texts == before or not plans or planning == MOST_PLANNINGS - 1:
            break
        before = texts
        report(f"{each['name']}: measuring prices of its Plans")
        calibrate(programs, each, plans, folder)
    return planned
