"""What the benchmarks in this folder share: building, starting and timing programs, and tables."""

import argparse
import collections
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Parser(argparse.ArgumentParser):
    """A parser whose description is printed as it is written, and whose errors are one line."""

    def __init__(self, description):
        super().__init__(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )

    def error(self, message):
        self.exit(2, f"error: {message}\n")


def start(main):
    """Runs a benchmark's main function. An interrupt ends it with one line."""
    try:
        main()
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)


def prepare(targets, pytorch):
    """Builds targets, and installs PyTorch if `pytorch`. Returns the folder of its programs."""
    script = "set -euo pipefail\n"
    if targets:
        script += "./bazelw build --ui_event_filters=-info --noshow_progress --show_result=0"
        script += f" {' '.join(targets)} >&2\n"
    if pytorch:
        script += 'source tests/parity/torch_venv.sh; torch_venv >&2; echo "$venv"\n'
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("error: cannot build and install what is compared")
    return pathlib.Path(done.stdout.strip()) / "bin"


Finished = collections.namedtuple("Finished", ["output", "peak_bytes"])


def run(command, threads=1, **environment):
    """Runs a command. Returns what it printed and the most memory that was resident for it.

    Ends this program if the command fails.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [str(word) for word in command],
            env={**os.environ, "OMP_NUM_THREADS": str(threads), **environment},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except KeyboardInterrupt:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            message = err.read().decode(errors="replace")[-2000:]
            sys.exit(f"error: {command[0]} ended with {process.returncode}:\n{message}")
        return Finished(out.read().decode(), usage.ru_maxrss * 1024)


def seconds_of_others():
    """Returns the seconds that cores have worked, apart from what this program has started."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, *more = (int(n) for n in file.readline().split()[1:9])
    # More: interrupts, and what a hypervisor gave to others.
    busy = (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK")
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return busy - children.ru_utime - children.ru_stime


class Others:
    """Measures how many cores other programs keep busy from now on."""

    def __init__(self):
        self.begin, self.seconds = time.monotonic(), seconds_of_others()

    def cores(self):
        return (seconds_of_others() - self.seconds) / (time.monotonic() - self.begin)


def values(rounds, *path):
    """Returns what stands at a path of keys in each round."""
    result = []
    for value in rounds:
        for key in path:
            value = value[key]
        result.append(value)
    return result


def median(rounds, *path):
    """Returns the median over rounds of what stands at a path of keys."""
    return statistics.median(values(rounds, *path))


def print_table(rows, left):
    """Prints rows of cells in columns: the first `left` to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ]
        print("  ".join(cells).rstrip())
