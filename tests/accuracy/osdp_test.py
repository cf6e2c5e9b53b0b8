#!/usr/bin/env python3
"""Tests the cases of ./osdp, its limits and its verdicts."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "rivals"))
import osdp_cases  # noqa: E402
import osdp_verdicts  # noqa: E402

PEAKS = {"ddp": 1000, "fsdp": 600, "fsdp:lean": 500}
STEPS = {"ddp": 0.2, "fsdp": 0.3, "fsdp:lean": 0.4}
KINDS = {"ddp": "DDP", "fsdp": "FSDP", "fsdp:lean": "FSDP"}
PLANS = [{"kind": kind, "name": name, "entry": name} for name, kind in KINDS.items()]


def ran(name, seconds, peak):
    return {
        "name": name,
        "outcome": "ran",
        "measured": {"steps": [seconds, 0.9 * seconds, 1.1 * seconds], "peak_bytes": peak},
    }


def case(name, limit, bytes_, peak, slices=False, share=1.0, seconds=0.2):
    return {
        "name": name,
        "limit": limit,
        "limit_bytes": bytes_,
        "predicted": {"seconds": seconds, "peak_bytes": peak, "measured_share": share},
        "chosen": "of 3 units",
        "slices": slices,
    }


def record(cases, steps, predicted_only=False):
    """Returns a record of one setting; `steps` are the measured seconds of the cases."""
    predicted = {name: {"seconds": STEPS[name], "peak_bytes": PEAKS[name]} for name in PEAKS}
    setting = {
        "name": "a_2",
        "ranks": 2,
        "state": "planned" if predicted_only else "ran",
        "plans": PLANS,
        "predicted": predicted,
        "cases": cases,
    }
    if not predicted_only:
        strategies = [ran(name, STEPS[name], PEAKS[name]) for name in PEAKS]
        peaks = {each["name"]: each["predicted"]["peak_bytes"] for each in cases}
        strategies += [ran(name, seconds, peaks[name]) for name, seconds in steps.items()]
        setting["runs"] = [{"strategies": strategies, "processor": "a processor"}]
        setting["others"] = 0.125
    return {
        "commit": "c0ffee",
        "dirty": False,
        "predicted_only": predicted_only,
        "rounds": 5,
        "rate": "1gbit",
        "cores": 2,
        "settings": [setting],
    }


def verdicts_of(rec):
    return {each["name"]: each for each in osdp_verdicts.verdicts(rec)}


class CasesTest(unittest.TestCase):
    def test_enough_cases_with_names_of_their_own(self):
        settings = osdp_cases.all_settings()
        names = [name for each in settings for name in osdp_cases.names_of(each)]
        self.assertEqual(len(names), len(set(names)))
        limits = [case["limit"] for each in settings for case in each["cases"]]
        self.assertEqual(limits.count(osdp_cases.SLICES), 1)
        self.assertGreaterEqual(len(names) - 1, 12)
        self.assertEqual({each["ranks"] for each in settings}, {2, 4})

    def test_selection(self):
        settings = osdp_cases.all_settings()

        def names(only, count):
            chosen = osdp_cases.selected(settings, only, count)
            return [name for each in chosen for name in osdp_cases.names_of(each)]

        self.assertEqual(names(["deep_2_tight"], None), ["deep_2_tight"])
        self.assertEqual(names(["deep_2"], None), ["deep_2_tight", "deep_2_middle"])
        first = [name for each in settings for name in osdp_cases.names_of(each)][:3]
        self.assertEqual(names([], 3), first)
        self.assertEqual(names(["deep_2"], 1), ["deep_2_tight"])
        with self.assertRaisesRegex(ValueError, "no case 'deep_3': the cases are embedding"):
            names(["deep_2", "deep_3"], None)

    def test_limits(self):
        predicted = {name: {"peak_bytes": peak} for name, peak in PEAKS.items()}

        def limit(name):
            return osdp_cases.limit_of({"plans": PLANS}, name, predicted)

        self.assertEqual(limit("tight"), 575)
        self.assertEqual(limit("loose"), 1000)
        self.assertEqual(limit(osdp_cases.SLICES), 400)


class VerdictsTest(unittest.TestCase):
    def test_the_rival_is_the_fastest_that_fits(self):
        cases = [case("a", "middle", 700, 650), case("b", "loose", 1000, 900)]
        rec = record(cases, {"a": 0.2, "b": 0.2})
        middle, loose = osdp_verdicts.judge_cases(rec)
        self.assertEqual(middle["rival"], "fsdp")
        self.assertAlmostEqual(middle["over_rival"], 0.2 / 0.3 - 1)
        self.assertEqual(loose["rival"], "ddp")
        self.assertAlmostEqual(loose["over_rival"], 0)
        self.assertAlmostEqual(loose["below_defaults"], 1 / 3)
        self.assertTrue(all(each["holds"] for each in osdp_verdicts.verdicts(rec)))

    def test_slower_than_a_rival(self):
        cases = [case("a", "loose", 1000, 900)]
        name = "worst over the fastest rival that fits"
        within = verdicts_of(record(cases, {"a": 0.2059}))[name]
        beyond = verdicts_of(record(cases, {"a": 0.2064}))[name]
        self.assertTrue(within["holds"])
        self.assertFalse(beyond["holds"])
        self.assertEqual(beyond["value"], "+3.2 % (a)")

    def test_half_of_the_cases_are_faster_than_the_defaults(self):
        cases = [case(name, "tight", 600, 550) for name in "abc"]
        name = "10 % below fsdp"
        one = verdicts_of(record(cases, {"a": 0.26, "b": 0.271, "c": 0.3}))[name]
        two = verdicts_of(record(cases, {"a": 0.26, "b": 0.269, "c": 0.3}))[name]
        self.assertEqual((one["value"], one["holds"]), ("1 of 3", False))
        self.assertEqual((two["value"], two["holds"]), ("2 of 3", True))

    def test_slices(self):
        name = "trains where only slices fit"
        for slices, limit, holds in ((True, 400, True), (False, 400, False), (True, 500, False)):
            with self.subTest(slices=slices, limit=limit):
                rec = record([case("s", "slices", limit, 390, slices)], {"s": 9.0})
                self.assertEqual(verdicts_of(rec)[name]["holds"], holds)
        lost = record([case("s", "slices", 400, 390, True)], {})
        self.assertFalse(verdicts_of(lost)[name]["holds"])

    def test_peaks_and_prices(self):
        rec = record([case("a", "tight", 600, 650, share=0.5)], {"a": 0.2})
        self.assertFalse(verdicts_of(rec)["peak exact, within the limit"]["holds"])
        self.assertFalse(verdicts_of(rec)["decided by measured prices"]["holds"])

    def test_a_rival_is_predicted_to_be_faster(self):
        name = "planned no slower than a rival"
        for seconds, holds in ((0.2002, True), (0.2003, False)):
            rec = record([case("a", "loose", 1000, 900, seconds=seconds)], {"a": 0.1})
            self.assertEqual(verdicts_of(rec)[name]["holds"], holds)
        rec = record([case("a", "tight", 600, 550, seconds=0.3)], {"a": 0.1})
        self.assertTrue(verdicts_of(rec)[name]["holds"])

    def test_a_rival_without_a_result_is_no_result(self):
        rec = record([case("a", "loose", 1000, 900)], {"a": 0.1})
        del rec["settings"][0]["runs"][0]["strategies"][0]["measured"]
        rec["settings"][0]["runs"][0]["strategies"][0].update(outcome="failed", fault="it crashed")
        (result,) = osdp_verdicts.judge_cases(rec)
        self.assertEqual(result["fault"], "ddp: it crashed")
        self.assertFalse(verdicts_of(rec)["cases with a result"]["holds"])

    def test_a_setting_that_failed_has_no_predictions_instead(self):
        rec = record([case("a", "loose", 1000, 900)], {}, predicted_only=True)
        rec["settings"][0].update(state="failed", reason="rank 1 has ended")
        (result,) = osdp_verdicts.judge_cases(rec)
        self.assertEqual(result["fault"], "rank 1 has ended")
        self.assertEqual(verdicts_of(rec)["cases with a result"]["value"], "0 of 1")

    def test_a_setting_that_was_not_reached(self):
        rec = record([case("a", "loose", 1000, 900)], {"a": 0.1})
        rec["settings"].append({"name": "b_2", "state": "not measured", "cases": [{"name": "b"}]})
        self.assertEqual(verdicts_of(rec)["cases with a result"]["value"], "1 of 2")
        osdp_verdicts.sections_of(rec)

    def test_predicted_only(self):
        rec = record([case("a", "loose", 1000, 900, seconds=0.25)], {}, predicted_only=True)
        (result,) = osdp_verdicts.judge_cases(rec)
        self.assertAlmostEqual(result["over_rival"], 0.25)
        self.assertNotIn("decided by measured prices", verdicts_of(rec))


if __name__ == "__main__":
    unittest.main()
