"""The arithmetic and the tables of ./osdp: steps beside those of rivals that fit, and verdicts."""

import statistics

from judge import criterion, percent, spread_of
from osdp_cases import DEFAULTS, MEASURED_SHARE, SLICES
from page import heading, milliseconds, paragraph, table

MOST_OVER_RIVAL = 0.03
LEAST_BELOW_DEFAULTS = 0.10
MOST_PLANNED_OVER_RIVAL = 0.001  # by the same prices
MIB = 1 << 20


def measured_steps(setting):
    """Returns the figures of what has run, by name of Plan or case; of the rest, its faults."""
    steps, faults = {}, {}
    for strategy in setting["runs"][0]["strategies"]:
        if "measured" not in strategy:
            faults[strategy["name"]] = strategy.get("fault") or strategy["outcome"]
            continue
        measured = strategy["measured"]
        steps[strategy["name"]] = {
            "seconds": statistics.median(measured["steps"]),
            "spread": spread_of(measured["steps"]),
            "peak_bytes": measured["peak_bytes"],
        }
    return steps, faults


def steps_and_faults(setting):
    """Returns those that were measured; of a setting that was only planned, those predicted."""
    if setting["state"] == "ran":
        return measured_steps(setting)
    if setting["state"] != "planned":
        reason = setting.get("reason") or "was not measured"
        return {}, {each["name"]: reason for each in setting["plans"] + setting["cases"]}
    own = {case["name"]: case["predicted"] for case in setting["cases"] if "predicted" in case}
    return {**setting["predicted"], **own}, {}


def judge_case(setting, case):
    """Returns a case with its figures beside those of the rivals."""
    result = {"name": case["name"], "hosts": setting["ranks"], "limit": case["limit"]}
    if "predicted" not in case:
        return {**result, "fault": case.get("fault") or "was not planned"}
    steps, faults = steps_and_faults(setting)
    own = steps.get(case["name"])
    fitting = {
        plan["name"]: steps[plan["name"]]["seconds"]
        for plan in setting["plans"]
        if setting["predicted"][plan["name"]]["peak_bytes"] <= case["limit_bytes"]
        and plan["name"] in steps
    }
    lost = [plan["name"] for plan in setting["plans"] if plan["name"] in faults]
    if own is None or lost:
        missing = case["name"] if own is None else lost[0]
        fault = faults.get(missing) or "did not run"
        return {**result, "fault": fault if missing == case["name"] else f"{missing}: {fault}"}
    defaults = steps[DEFAULTS]["seconds"]
    result.update(
        limit_bytes=case["limit_bytes"],
        seconds=own["seconds"],
        spread=own.get("spread"),
        predicted=case["predicted"]["seconds"],
        defaults=defaults,
        below_defaults=1 - own["seconds"] / defaults,
        fits=own["peak_bytes"] == case["predicted"]["peak_bytes"] <= case["limit_bytes"],
        by_measured_prices=case["predicted"]["measured_share"] >= MEASURED_SHARE,
        slices=case["slices"],
        rival=None,
    )
    if fitting:
        rival = min(fitting, key=fitting.get)
        result.update(rival=rival, rival_seconds=fitting[rival])
        result["over_rival"] = own["seconds"] / fitting[rival] - 1
        planned = min(setting["predicted"][name]["seconds"] for name in fitting)
        most = (1 + MOST_PLANNED_OVER_RIVAL) * planned
        result["planned_no_slower"] = case["predicted"]["seconds"] <= most
    return result


def judge_cases(record):
    """Returns the results of all cases that were at least planned."""
    return [
        judge_case(setting, case)
        for setting in record["settings"]
        if "predicted" in setting
        for case in setting["cases"]
    ]


def count_criterion(name, holding, among, aim="all", enough=None):
    """Returns a criterion that holds if `enough` do; without it, all of them, and at least one."""
    text = f"{len(holding)} of {len(among)}"
    if enough is None:
        enough = len(among)
    return criterion(name, text, aim, bool(among) and len(holding) >= enough)


def verdicts(record):
    """Returns the criteria of a record. Each names the cases that it counts."""
    results = judge_cases(record)
    ran = [result for result in results if "fault" not in result]
    planned = sum(len(setting["cases"]) for setting in record["settings"])
    rivaled = [result for result in ran if result["rival"]]
    faster = [each for each in rivaled if each["below_defaults"] >= LEAST_BELOW_DEFAULTS]
    text, holds = "no case", False
    if rivaled:
        worst = max(rivaled, key=lambda each: each["over_rival"])
        text = f"{percent(worst['over_rival'], '+')} ({worst['name']})"
        holds = worst["over_rival"] <= MOST_OVER_RIVAL
    complete = len(ran) == planned > 0
    criteria = [
        criterion("cases with a result", f"{len(ran)} of {planned}", "all", complete),
        criterion(
            "worst over the fastest rival that fits", text, f"<= {100 * MOST_OVER_RIVAL:g} %", holds
        ),
        count_criterion(
            f"{100 * LEAST_BELOW_DEFAULTS:g} % below {DEFAULTS}",
            faster,
            rivaled,
            ">= half",
            len(rivaled) / 2,
        ),
        count_criterion("peak exact, within the limit", [r for r in ran if r["fits"]], ran),
    ]
    if rivaled:
        no_slower = [each for each in rivaled if each["planned_no_slower"]]
        criteria.append(count_criterion("planned no slower than a rival", no_slower, rivaled))
    alone = [result for result in results if result["limit"] == SLICES]
    if alone:
        trains = [r for r in alone if "fault" not in r and r["slices"] and not r["rival"]]
        criteria.append(count_criterion("trains where only slices fit", trains, alone))
    if is_measured(record):
        known = [result for result in ran if result["by_measured_prices"]]
        criteria.append(count_criterion("decided by measured prices", known, ran))
    return criteria


def is_measured(record):
    return not record["predicted_only"]


def case_row(result):
    own_columns = [result["name"], str(result["hosts"])]
    if "fault" in result:
        return own_columns + [""] * 8 + ["no result"]
    return own_columns + [
        f"{result['limit_bytes'] / MIB:.1f} MiB",
        result["rival"] or "none fits",
        milliseconds(result["rival_seconds"]) if result["rival"] else "",
        milliseconds(result["defaults"]),
        milliseconds(result["seconds"]),
        "" if result["spread"] is None else percent(result["spread"]),
        milliseconds(result["predicted"]),
        percent(result["over_rival"], "+") if result["rival"] else "",
        percent(-result["below_defaults"], "+"),
    ]


HEADER = ["case", "hosts", "limit", "best rival", "its step", DEFAULTS, "osdp", "spread"]
HEADER += ["predicted", "to rival", f"to {DEFAULTS}"]


def plan_rows(setting):
    """Returns a table of all Plans of a setting: predicted and measured steps, and peaks."""
    measured, faults = measured_steps(setting) if "runs" in setting else ({}, {})
    planned = dict(setting["predicted"])
    planned.update((c["name"], c["predicted"]) for c in setting["cases"] if "predicted" in c)
    rows = [["Plan", "peak", "predicted", "measured", "error", "spread"]]
    for name, predicted in planned.items():
        row = [name, f"{predicted['peak_bytes'] / MIB:.1f} MiB", milliseconds(predicted["seconds"])]
        if name in measured:
            step = measured[name]
            error = predicted["seconds"] / step["seconds"] - 1
            row += [milliseconds(step["seconds"]), percent(error, "+"), percent(step["spread"])]
        else:
            row += ["no result" if name in faults else "", "", ""]
        rows.append(row)
    return rows


def setting_sections(setting):
    if "predicted" not in setting:
        state, reason = setting["state"].capitalize(), setting.get("reason", "was not reached")
        return [heading(4, setting["name"]), paragraph(f"{state}: {reason.rstrip('.')}.")]
    sections = [heading(4, setting["name"]), table(plan_rows(setting), left=1)]
    if "reason" in setting:
        sections.append(paragraph(setting["reason"].rstrip(".") + "."))
    for case in setting["cases"]:
        text = case["fault"] if "fault" in case else case["chosen"]
        sections.append(paragraph(f"{case['name']}: {text.rstrip('.')}."))
    return sections


def sections_of(record):
    """Returns all tables of a record, in the form of page.as_text."""
    results = judge_cases(record)
    changes = ", with changes that were not committed" if record["dirty"] else ""
    kind = "Predicted steps" if record["predicted_only"] else f"{record['rounds']} rounds"
    busy = [setting["others"] for setting in record["settings"] if "others" in setting]
    others = f" Other programs kept {min(busy):.2f} to {max(busy):.2f} cores busy." if busy else ""
    processors = {run["processor"] for s in record["settings"] for run in s.get("runs", [])}
    processor = f" of {'; '.join(sorted(processors))}" if processors else ""
    sections = [section for each in record["settings"] for section in setting_sections(each)]
    sections.append(heading(2, "osdp beside the rivals that fit"))
    sections.append(
        paragraph(
            f"Commit {record['commit']}{changes}; {kind}; links of {record['rate']}; "
            f"{record['cores']} cores{processor}.{others}"
        )
    )
    if results:
        sections.append(table([HEADER, *map(case_row, results)], left=1))
    for result in results:
        if "fault" in result:
            sections.append(paragraph(f"{result['name']}: {result['fault'].rstrip('.')}."))
    rows = [["", "result", "aim", ""]]
    for each in verdicts(record):
        holds = "holds" if each["holds"] else "does not hold"
        rows.append([each["name"], each["value"], each["aim"], holds])
    return sections + [table(rows, left=1)]
