"""Measures settings: runs compare, and repeats the Plans whose spread is too large."""

import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from bench import ROOT, Others
from judge import judge_run, needs_repetition

# The seconds of steps that a Plan is timed in each round, and how many steps these may be.
ROUND_SECONDS = 0.8
ROUND_STEPS = (2, 8)
# A guess of the seconds until a Plan is compiled and checked, and of the time of a round over that
# of its timed steps, for the time that is left.
PREPARATION_SECONDS = 4
ROUND_OVER_STEPS = 2
ROUND_LINE = re.compile(r"round (\d+)/(\d+) \| (.*?) \| ")


class Failed(Exception):
    """compare has ended without results, for the reason in the message."""


class Programs:
    """compare and emulate, and what they can do on this machine."""

    def __init__(self, folder):
        self.compare = folder / "tools/compare/compare"
        self.emulate = folder / "tools/emulate/emulate"
        for program in (self.compare, self.emulate):
            if not program.is_file():
                sys.exit(f"error: there is no program {program}")
        self._cannot_emulate = None

    def cannot_emulate(self):
        """Returns why this machine cannot emulate hosts, or "" if it can."""
        if self._cannot_emulate is None:
            done = subprocess.run(
                [self.emulate, "--hosts=2", "--", "true"], capture_output=True, text=True
            )
            lines = done.stderr.strip().splitlines() or ["emulate fails"]
            self._cannot_emulate = lines[-1].removeprefix("error: ") if done.returncode else ""
        return self._cannot_emulate


class Progress:
    """Prints lines with the time that is left. Work is counted in guessed seconds."""

    def __init__(self, works):
        self.total, self.done, self.begin = sum(works), 0, time.monotonic()
        self.shown = -math.inf

    def print(self, text, part=0):
        """`part` is work of the present run that is done."""
        now, done = time.monotonic(), self.done + part
        left = (now - self.begin) / done * (self.total - done) if done > 0 else None
        time_left = "" if left is None else f", {math.ceil(left / 60)} min left"
        print(text + time_left, file=sys.stderr, flush=True)
        self.shown = now

    def print_seldom(self, text, part):
        if time.monotonic() - self.shown >= 20:
            self.print(text, part)


def steps_of_a_round(setting):
    steps = math.ceil(ROUND_SECONDS / setting["guessed_seconds"])
    return max(ROUND_STEPS[0], min(steps, ROUND_STEPS[1]))


def work_of(setting, plans, rounds):
    round_seconds = ROUND_OVER_STEPS * setting["guessed_seconds"] * steps_of_a_round(setting)
    return len(plans) * (PREPARATION_SECONDS + rounds * round_seconds)


def model_flags(setting):
    def text(value):
        return f"[{';'.join(map(str, value))}]" if isinstance(value, list) else str(value)

    fields = [f"model.{name}={text(value)}" for name, value in setting["sizes"].items()]
    fields += ["optimizer.schedule=constant", "optimizer.warmup_steps=0"]
    return [
        f"--model={setting['model']}",
        f"--set={','.join(fields)}",
        "--data=synthetic",
        "--optimizer=adamw",
        "--lr=3e-4",
        f"--clip_norm={setting['clip_norm']}",
        f"--batch={setting['batch']}",
        f"--sequence={setting['sequence']}",
        f"--threads={setting['threads']}",
    ]


def strategies_flag(plans, folder):
    """Returns --strategies. Plans that are texts are written into the folder."""
    entries = []
    for plan in plans:
        if "entry" in plan:
            entries.append(plan["entry"])
            continue
        path = pathlib.Path(folder) / f"{plan['name']}.textproto"
        path.write_text(plan["text"])
        entries.append(f"{plan['name']}={path}")
    return f"--strategies={','.join(entries)}"


def command_of(programs, setting, network, plans, rounds, steps, folder):
    command = [programs.compare, *model_flags(setting), strategies_flag(plans, folder)]
    command += [f"--rounds={rounds}", f"--steps={rounds * steps}"]
    command.append(f"--json={folder}/comparison.json")
    if "rate" in network:
        hosts = [f"--hosts={setting['ranks']}", f"--rate={network['rate']}"]
        return [programs.emulate, *hosts, "--", *command]
    command.append(f"--nproc={setting['ranks']}")
    return command + ([f"--backend={network['backend']}"] if "backend" in network else [])


def run_and_follow(command, follow):
    """Runs a command, and calls follow(line) for each line of its output.

    Returns its exit code and what it wrote to the standard error.
    """
    with tempfile.TemporaryFile(mode="w+", errors="replace") as errors:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
        )
        try:
            for line in process.stdout:
                follow(line)
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        errors.seek(0)
        return code, errors.read()


def strip(comparison):
    """Removes what the tables do not need."""
    for strategy in comparison["strategies"]:
        for key in ("losses", "grad_norms"):
            strategy.get("measured", {}).pop(key, None)
    return comparison


def compare_json(folder, code, errors):
    """Returns the JSON that compare wrote into a folder, or raises Failed with its error."""
    try:
        return json.loads((pathlib.Path(folder) / "comparison.json").read_text())
    except (OSError, ValueError):
        lines = [line for line in errors.splitlines() if "error: " in line]
        reason = lines[-1].partition("error: ")[2] if lines else f"exit code {code}"
        raise Failed(reason) from None


def compare(programs, setting, network, plans, rounds, progress, label):
    """Runs compare once. Returns its JSON."""
    names = [plan["name"] for plan in plans]
    work = work_of(setting, plans, rounds)

    def follow(line):
        found = ROUND_LINE.search(line)
        if found is None or found[3] not in names:
            return
        done = (int(found[1]) - 1) * len(names) + names.index(found[3]) + 1
        prepared = len(names) * PREPARATION_SECONDS
        part = prepared + done / (int(found[2]) * len(names)) * (work - prepared)
        progress.print_seldom(f"{label}: round {found[1]} of {found[2]}", part)

    with tempfile.TemporaryDirectory() as folder:
        steps = steps_of_a_round(setting)
        command = command_of(programs, setting, network, plans, rounds, steps, folder)
        code, errors = run_and_follow(command, follow)
        progress.done += work
        comparison = compare_json(folder, code, errors)
    return {**strip(comparison), "exit_code": code}


def plans_to_repeat(setting, comparison):
    return [
        plan
        for plan in setting["plans"]
        if needs_repetition(judge_run(comparison, plan["name"]))
    ]


def measure_setting(programs, setting, network, rounds, progress, label, repeats):
    """Returns the setting with its runs, or with the reason why there are none.

    If `repeats`, Plans whose spread is too large run once more.
    """
    if "rate" in network and programs.cannot_emulate():
        progress.total -= work_of(setting, setting["plans"], rounds)
        return {**setting, "state": "not run", "reason": programs.cannot_emulate()}
    others = Others()
    progress.print(label)
    try:
        runs = [compare(programs, setting, network, setting["plans"], rounds, progress, label)]
    except Failed as failed:
        return {**setting, "state": "failed", "reason": str(failed)}
    again = plans_to_repeat(setting, runs[0]) if repeats else []
    if again:
        progress.total += work_of(setting, again, rounds)
        label += ", again: " + ", ".join(plan["name"] for plan in again)
        progress.print(label)
        try:
            runs.append(compare(programs, setting, network, again, rounds, progress, label))
        except Failed as failed:
            # The first run counts, and its spread makes these cases void.
            progress.print(f"{label}: {failed}")
    return {**setting, "state": "ran", "others": max(0, others.cores()), "runs": runs}
