#!/usr/bin/env python3
"""Tests the draws of seeds, and the arithmetic of the accuracy page."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "rivals"))
import draw  # noqa: E402
import judge  # noqa: E402
import measure  # noqa: E402


def strategy(name, steps, predicted, **more):
    """Returns a strategy in compare's JSON."""
    cost = {"peak_bytes": 1000, "collectives": []}
    return {
        "name": name,
        "outcome": "ran",
        "estimated": {"step_seconds": predicted, **cost},
        "measured": {"steps": steps, **cost},
        **more,
    }


def case(name, predicted, measured, void=False):
    error = (predicted - measured) / measured
    return {
        "name": name,
        "predicted": predicted,
        "measured": measured,
        "error": error,
        "spread": 0,
        "void": void,
        "memory_exact": True,
        "bytes_exact": True,
    }


def setting(*runs):
    names = [each["name"] for each in runs[0]["strategies"]]
    plans = [{"name": name, "kind": "DDP"} for name in names]
    return {"state": "ran", "plans": plans, "runs": list(runs)}


def run(*strategies):
    return {"rounds": 2, "strategies": list(strategies)}


class ArithmeticTest(unittest.TestCase):
    def test_quantiles_are_interpolated(self):
        self.assertEqual(judge.quantile([7], 0.75), 7)
        self.assertEqual(judge.quantile([4, 1, 2, 3], 0.25), 1.75)
        self.assertEqual(judge.quantile([4, 1, 2, 3], 0.75), 3.25)
        self.assertEqual(judge.quantile([1, 2, 3], 1), 3)

    def test_spread_is_half_the_interquartile_range_over_the_median(self):
        self.assertAlmostEqual(judge.spread_of([1, 2, 3, 4]), (3.25 - 1.75) / 2 / 2.5)
        self.assertEqual(judge.spread_of([5, 5, 5]), 0)

    def test_pairs_that_differ_by_more_than_5_percent_are_in_order_or_not(self):
        cases = [case("a", 1.0, 1.0), case("b", 0.9, 1.04), case("c", 0.95, 1.2)]
        # a and b differ by 4 %; c is slower than both, and predicted faster than a.
        self.assertEqual(judge.judge_pairs(cases), (1, 2))
        self.assertEqual(judge.judge_pairs([case("a", 1, 1), case("b", 1, 2)]), (0, 1))
        self.assertEqual(judge.judge_pairs([case("a", 1, 1), case("b", 0, 2, void=True)]), (0, 0))
        self.assertEqual(judge.judge_pairs([case("a", 1, 1), {"fault": "", "void": 0}]), (0, 0))

    def test_cost_of_choice_is_that_of_the_predicted_best(self):
        cases = [case("a", 2, 1.0), case("b", 1, 1.25), case("c", 0.5, 9, void=True)]
        self.assertEqual(judge.cost_of_choice(cases), 0.25)
        self.assertEqual(judge.cost_of_choice(cases[:1]), 0)
        self.assertIsNone(judge.cost_of_choice(cases[2:]))


class CaseTest(unittest.TestCase):
    def test_an_estimate_is_compared_with_all_steps(self):
        found = judge.judge_run(run(strategy("ddp", [1, 2, 3, 4], 2)), "ddp")
        self.assertEqual((found["predicted"], found["measured"]), (2, 2.5))
        self.assertAlmostEqual(found["error"], -0.2)
        self.assertEqual(found["source"], "estimated")

    def test_a_calibrated_prediction_comes_first(self):
        ddp = strategy("ddp", [1, 2, 3, 4], 9, calibrated={"step_seconds": 2})
        found = judge.judge_run(run(ddp), "ddp")
        self.assertEqual((found["predicted"], found["source"]), (2, "all rounds"))

    def test_the_median_of_rounds_is_the_prediction(self):
        calibrated = {"step_seconds": 99, "rounds": [1, 2, 60, 3]}
        ddp = strategy("ddp", [100, 4, 5, 4], 9, calibrated=calibrated)
        found = judge.judge_run({**run(ddp), "rounds": 4}, "ddp")
        self.assertEqual((found["predicted"], found["measured"]), (2.5, 4.5))
        self.assertEqual(found["source"], "other rounds")

    def test_memory_and_bytes_are_exact_or_not(self):
        sent = {"operation": "all-gather", "mesh_axes": ["data"], "calls": 2, "bytes": 64}
        unused = {"operation": "all-reduce", "mesh_axes": [], "calls": 0, "bytes": 0}
        ddp = strategy("ddp", [1], 1)
        self.assertTrue(judge.judge_run(run(ddp), "ddp")["memory_exact"])
        ddp["estimated"].update(peak_bytes=1001, collectives=[sent, unused])
        ddp["measured"]["collectives"] = [dict(sent)]
        found = judge.judge_run(run(ddp), "ddp")
        self.assertEqual((found["memory_exact"], found["bytes_exact"]), (False, True))
        ddp["measured"]["collectives"] = [{**sent, "calls": 3}]
        self.assertFalse(judge.judge_run(run(ddp), "ddp")["bytes_exact"])

    def test_a_plan_without_times_has_a_fault(self):
        failed = {"name": "ddp", "outcome": "not run"}
        self.assertEqual(judge.judge_run(run(failed), "ddp"), {"fault": "not run"})
        unpriced = strategy("ddp", [1], 1)
        del unpriced["estimated"]
        self.assertIn("not priced", judge.judge_run(run(unpriced), "ddp")["fault"])

    def test_the_second_run_counts_and_may_be_void(self):
        wild, calm = [1, 2, 3, 4], [2, 2, 2, 2]
        first = run(strategy("a", wild, 2), strategy("b", wild, 2), strategy("c", calm, 2))
        again = measure.plans_to_repeat(setting(first), first)
        self.assertEqual([plan["name"] for plan in again], ["a", "b"])
        second = run(strategy("a", calm, 2), strategy("b", wild, 2))
        a, b, c = judge.judge_cases(setting(first, second), has_voids=True)
        self.assertEqual((a["void"], a["measured"], a["first_spread"]), (False, 2, 0.3))
        self.assertEqual((b["void"], b["first_spread"]), (True, 0.3))
        self.assertEqual((c["void"], "first_spread" in c), (False, False))
        self.assertFalse(judge.judge_cases(setting(first), has_voids=False)[0]["void"])


class VerdictTest(unittest.TestCase):
    def judge(self, cases):
        """Returns by name whether the criteria of a draw of one setting hold."""
        plans = [{"name": each["name"]} for each in cases]
        result = {
            "cases": cases,
            "pairs": judge.judge_pairs(cases),
            "choice": judge.cost_of_choice(cases),
        }
        criteria = judge.judge_draw([{"plans": plans}], [result])
        return {each["name"]: each["holds"] for each in criteria}

    def test_all_criteria_hold_at_their_bounds(self):
        verdict = self.judge([case("a", 1.0, 1.0), case("b", 2.2, 2.0), case("c", 3, 3)])
        self.assertEqual(set(verdict.values()), {True}, verdict)

    def test_each_criterion_can_fail(self):
        cases = [case("a", 1.16, 1.0), case("b", 1.15, 1.06)] + [
            case(f"void {i}", 1, 1, void=True) for i in range(5)
        ]
        cases[0].update(memory_exact=False, bytes_exact=False)
        verdict = self.judge(cases + [{"name": "x", "fault": "failed", "void": False}])
        self.assertEqual(set(verdict.values()), {False}, verdict)

    def test_a_draw_without_cases_does_not_hold(self):
        criteria = judge.judge_draw([{"plans": [{}, {}]}], [None])
        held = [each["name"] for each in criteria if each["holds"]]
        self.assertEqual(held, ["void cases"])


class DrawTest(unittest.TestCase):
    def test_a_seed_always_draws_the_same(self):
        self.assertEqual(draw.draw_settings(7), draw.draw_settings(7))
        self.assertNotEqual(draw.draw_settings(7), draw.draw_settings(8))

    def test_every_draw_follows_the_protocol(self):
        for seed in range(50):
            settings, four_ranks = draw.draw_settings(seed)
            self.assertEqual(len(settings), 8)
            self.assertEqual({each["network"] for each in settings}, set(draw.NETWORKS))
            self.assertEqual([each["ranks"] for each in four_ranks], [4, 4])
            for each in settings + four_ranks:
                self.check_setting(each)

    def check_setting(self, setting):
        kinds = {plan["kind"] for plan in setting["plans"]}
        several = {"DDP", "FSDP", "tensor parallel", "mixed"}
        self.assertEqual(kinds, several if setting["ranks"] > 1 else {"one process"})
        self.assertEqual(len({plan["name"] for plan in setting["plans"]}), 5)
        self.assertTrue(0.05 <= setting["guessed_seconds"] <= 1.2, setting)
        if setting["model"] == "gpt":
            self.assertEqual(setting["sizes"]["channels"] % setting["sizes"]["heads"], 0)


if __name__ == "__main__":
    unittest.main()
