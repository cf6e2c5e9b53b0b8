"""Records of measurements: JSON files with a line for each setting, and the commit of the code."""

import json
import subprocess

from bench import ROOT

# A measurement writes these files. They are no part of the code that is measured.
RESULTS = ["docs/accuracy.md", "tests/accuracy/draws"]


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit():
    """Returns the commit that is checked out, and whether tracked files differ from it."""
    excluded = [f":!{path}" for path in RESULTS]
    changes = git("status", "--porcelain", "--untracked-files=no", "--", ".", *excluded)
    return git("rev-parse", "HEAD") or "unknown", changes != ""


def read_record(parser, path, record_format):
    try:
        record = json.loads(path.read_text())
        if record["format"] != record_format:
            parser.error(f"{path} has format {record['format']}, not {record_format}")
        return record
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"cannot read the record {path}: {error}")


def write_record(record, path):
    """Writes a record with one line for each setting."""
    lines = []
    for name, value in record.items():
        if isinstance(value, list):
            rows = ",\n".join("  " + json.dumps(each) for each in value)
            lines.append(f" {json.dumps(name)}: [\n{rows}\n ]" if value else f' "{name}": []')
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    temporary = path.with_name(path.name + ".new")
    temporary.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    temporary.replace(path)
