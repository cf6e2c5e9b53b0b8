"""The arithmetic of the accuracy page: errors, spreads, voids, pairs and verdicts of a draw."""

import statistics

# The prediction of a Plan in compare's JSON, by preference. The "rounds" of the first are the
# predictions for each round by the prices that the other rounds have measured.
CALIBRATED = "calibrated"
ESTIMATED = "estimated"

AIMS = {
    "voids": 4,
    "mean_error": 0.05,
    "worst_error": 0.15,
    "pairs": 0.98,
    "choice": 0.03,
}
MAX_SPREAD = 0.05
# Measured times that differ by less are not a pair.
MIN_DIFFERENCE = 0.05


def quantile(values, q):
    """Returns a quantile, interpolated between the nearest two values, as compare does."""
    values = sorted(values)
    position = q * (len(values) - 1)
    below = int(position)
    above = min(below + 1, len(values) - 1)
    return values[below] + (position - below) * (values[above] - values[below])


def spread_of(values):
    """Returns half the interquartile range over the median."""
    return (quantile(values, 0.75) - quantile(values, 0.25)) / 2 / statistics.median(values)


def predicted_by_round(strategy, rounds):
    """Returns the predictions of rounds, or None if compare has not separated them."""
    each = strategy.get(CALIBRATED, {}).get("rounds")
    if each is None or len(each) != rounds or rounds < 2:
        return None
    return each


def predict_and_measure(strategy, rounds):
    """Returns the predicted seconds, and the steps with which they are compared."""
    steps = strategy["measured"]["steps"]
    by_round = predicted_by_round(strategy, rounds)
    if by_round is None:
        prediction = strategy.get(CALIBRATED) or strategy[ESTIMATED]
        return prediction["step_seconds"], steps
    return statistics.median(by_round), steps


def source_of(strategy, rounds):
    """Returns where the prediction of a strategy is from."""
    if CALIBRATED not in strategy:
        return ESTIMATED
    return "other rounds" if predicted_by_round(strategy, rounds) else "all rounds"


def collectives_of(cost):
    return {
        (each["operation"], *each["mesh_axes"]): (each["calls"], each["bytes"])
        for each in cost["collectives"]
        if each["calls"] > 0
    }


def judge_run(comparison, name):
    """Returns the case of one Plan in one run of compare."""
    strategy = next(each for each in comparison["strategies"] if each["name"] == name)
    if "measured" not in strategy:
        return {"fault": strategy.get("fault") or strategy["outcome"]}
    if ESTIMATED not in strategy and CALIBRATED not in strategy:
        return {"fault": "compare has not priced its step"}
    rounds = comparison["rounds"]
    predicted, steps = predict_and_measure(strategy, rounds)
    measured = statistics.median(steps)
    counted = strategy["measured"]
    estimated = strategy.get(ESTIMATED) or strategy[CALIBRATED]
    return {
        "predicted": predicted,
        "measured": measured,
        "error": (predicted - measured) / measured,
        "spread": spread_of(steps),
        "source": source_of(strategy, rounds),
        "memory_exact": estimated["peak_bytes"] == counted["peak_bytes"],
        "bytes_exact": collectives_of(estimated) == collectives_of(counted),
    }


def needs_repetition(case):
    return "fault" not in case and case["spread"] > MAX_SPREAD


def judge_cases(setting, has_voids):
    """Returns the cases of a measured setting: of a Plan that was repeated, the repetition."""
    first, *repeated = setting["runs"]
    cases = []
    for plan in setting["plans"]:
        case = judge_run(first, plan["name"])
        for run in repeated:
            if any(each["name"] == plan["name"] for each in run["strategies"]):
                case = {"first_spread": case["spread"], **judge_run(run, plan["name"])}
        void = has_voids and needs_repetition(case)
        cases.append({"name": plan["name"], "kind": plan["kind"], "void": void, **case})
    return cases


def counted_cases(cases):
    """Returns the cases that have a result and are not void."""
    return [case for case in cases if "fault" not in case and not case["void"]]


def judge_pairs(cases):
    """Returns how many pairs are in the right order, and how many there are."""
    cases = counted_cases(cases)
    right = total = 0
    for i, a in enumerate(cases):
        for b in cases[:i]:
            measured = a["measured"] - b["measured"]
            if abs(measured) <= MIN_DIFFERENCE * min(a["measured"], b["measured"]):
                continue
            total += 1
            right += (a["predicted"] - b["predicted"]) * measured > 0
    return right, total


def cost_of_choice(cases):
    """Returns what the predicted best takes beyond the measured best, over that; or None."""
    cases = counted_cases(cases)
    if not cases:
        return None
    chosen = min(cases, key=lambda case: case["predicted"])
    return chosen["measured"] / min(case["measured"] for case in cases) - 1


def judge_settings(settings, has_voids=True):
    """Returns a list with None for each setting without a run, or else its results.

    Without voids, all cases count, however large their spread.
    """
    results = []
    for setting in settings:
        if setting["state"] != "ran":
            results.append(None)
            continue
        cases = judge_cases(setting, has_voids)
        results.append(
            {"cases": cases, "pairs": judge_pairs(cases), "choice": cost_of_choice(cases)}
        )
    return results


def criterion(name, value, aim, holds):
    """`value` and `aim` are texts, such as "3 of 4" and "all"."""
    return {"name": name, "value": value, "aim": aim, "holds": holds}


def percent(share, sign=""):
    return f"{100 * share:{sign}.1f} %"


def most(name, value, aim, remark=""):
    """Returns a criterion that holds if a share is at most `aim`; None is no share at all."""
    text = "no case" if value is None else percent(value) + remark
    return criterion(name, text, f"<= {100 * aim:g} %", value is not None and value <= aim)


def error_criteria(settings, results):
    worst, errors = ("", None), []
    for number, result in enumerate(results, 1):
        for case in counted_cases(result["cases"]) if result else []:
            errors.append(abs(case["error"]))
            if worst[1] is None or errors[-1] > worst[1]:
                worst = (f" ({case['name']}, setting {number})", errors[-1])
    mean = statistics.mean(errors) if errors else None
    return [
        most("mean absolute error", mean, AIMS["mean_error"]),
        most("worst absolute error", worst[1], AIMS["worst_error"], worst[0]),
    ]


def order_criteria(results):
    ran = [result for result in results if result]
    right = sum(result["pairs"][0] for result in ran)
    total = sum(result["pairs"][1] for result in ran)
    share = f"{right} of {total}" + (f", {percent(right / total)}" if total else "")
    choices = [(r["choice"], n) for n, r in enumerate(results, 1) if r and r["choice"] is not None]
    choice, number = max(choices, default=(None, 0))
    return [
        criterion(
            "pairs in the right order",
            share,
            f">= {100 * AIMS['pairs']:g} %",
            total > 0 and right >= AIMS["pairs"] * total,
        ),
        most("cost of the predicted best", choice, AIMS["choice"], f" (setting {number})"),
    ]


def exact_criterion(name, key, cases):
    exact = sum(case[key] for case in cases)
    return criterion(name, f"{exact} of {len(cases)}", "all", bool(cases) and exact == len(cases))


def judge_draw(settings, results):
    """Returns the criteria of a draw, in the order of the page."""
    cases = [case for result in results if result for case in result["cases"]]
    with_result = [case for case in cases if "fault" not in case]
    planned = sum(len(setting["plans"]) for setting in settings)
    voids = sum(case["void"] for case in cases)
    return [
        criterion(
            "cases with a result",
            f"{len(with_result)} of {planned}",
            "all",
            0 < planned == len(with_result),
        ),
        criterion("void cases", str(voids), f"<= {AIMS['voids']}", voids <= AIMS["voids"]),
        *error_criteria(settings, results),
        *order_criteria(results),
        exact_criterion("memory exact", "memory_exact", with_result),
        exact_criterion("calls and bytes exact", "bytes_exact", with_result),
    ]
