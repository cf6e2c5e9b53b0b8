"""The tables of draws: as text for a terminal, and as the Markdown of docs/accuracy.md."""

import pathlib
import textwrap

from judge import ESTIMATED, judge_draw, judge_settings, percent

WIDTH = 100

INTRODUCTION = pathlib.Path(__file__).with_name("introduction.md")
NO_DRAW = "## Draws\n\nThere is no draw yet.\n"

SOURCES = {
    ESTIMATED: "Predictions are the estimates from before the first round.",
    "all rounds": "Each Plan was priced once, by the measurements of all rounds: a prediction "
    "shares its rounds with the steps that it is compared with, though it has used no step time.",
    "other rounds": "Predictions are by the prices of other rounds than those whose steps they "
    "are compared with.",
}


def heading(level, text):
    return ("heading", level, text)


def paragraph(text):
    return ("paragraph", text)


def table(rows, left):
    """The first row is the header. The first `left` columns are aligned to the left."""
    return ("table", rows, left)


def milliseconds(seconds):
    value = 1e3 * seconds
    if value < 9.995:
        return f"{value:.2f} ms"
    return f"{value:.1f} ms" if value < 999.95 else f"{seconds:.2f} s"


def counted(number, noun):
    return f"{number} {noun}" + ("" if number == 1 else "s")


def sizes_text(setting):
    sizes = setting["sizes"]
    if setting["model"] == "gpt":
        layers = counted(sizes["layers"], "layer")
        shape = f"{layers}, {sizes['channels']} channels, {sizes['heads']} heads"
    else:
        hidden = " and ".join(map(str, sizes["hidden"]))
        shape = f"{sizes['channels']} channels, {hidden} hidden units"
    clip = "gradients clipped" if setting["clip_norm"] else "no clipping"
    return (
        f"{shape}, {sizes['vocabulary']} words, {setting['parameters']} parameters; "
        f"{setting['batch']} sequences of {setting['sequence']} tokens; {clip}"
    )


def title(number, setting):
    network = setting["network"]
    ranks = "" if setting["ranks"] == 1 else f", {setting['ranks']} ranks"
    if network.endswith("bit/s"):
        network = f"2 hosts at {network}"
    return f"Setting {number}: {setting['model']}{ranks}, {network}"


def remark(case):
    words = ["void"] if case["void"] else []
    if "first_spread" in case:
        words.append(f"repeated after {percent(case['first_spread'])}")
    return "; ".join(words)


def exact(case):
    wrong = [name for name in ("memory", "bytes") if not case[f"{name}_exact"]]
    return "no: " + ", ".join(wrong) if wrong else "yes"


def case_row(case):
    if "fault" in case:
        return [case["name"], "", "", "", "", "", "no result"]
    return [
        case["name"],
        milliseconds(case["predicted"]),
        milliseconds(case["measured"]),
        percent(case["error"], "+"),
        percent(case["spread"]),
        exact(case),
        remark(case),
    ]


def setting_sections(number, setting, result):
    sections = [heading(4, title(number, setting)), paragraph(sizes_text(setting) + ".")]
    if result is None:
        state, reason = setting["state"].capitalize(), setting.get("reason", "to be measured")
        return sections + [paragraph(f"{state}: {reason.rstrip('.')}.")]
    header = ["Plan", "predicted", "measured", "error", "spread", "exact", "remark"]
    rows = [case_row(case) for case in result["cases"]]
    sections.append(table([header, *rows], left=1))
    for case in result["cases"]:
        if "fault" in case:
            fault = case["fault"].rstrip(".")
            named = fault if fault.startswith(case["name"]) else f"{case['name']}: {fault}"
            sections.append(paragraph(named + "."))
    right, total = result["pairs"]
    text = f"Pairs in the right order: {right} of {total}."
    if result["choice"] is not None:
        text += f" The predicted best costs {percent(result['choice'])}."
    return sections + [paragraph(text)]


def sources_of(results):
    cases = [case for result in results if result for case in result["cases"]]
    return [name for name in SOURCES if any(case.get("source") == name for case in cases)]


def conditions(record, results):
    """Returns the sentences about how a draw was measured."""
    ran = [s for s in record["settings"] + record["four_ranks"] if s["state"] == "ran"]
    changes = ", with changes that were not committed" if record["dirty"] else ""
    sentences = [f"Commit {record['commit']}{changes}; {record['rounds']} rounds."]
    if ran:
        others = [setting["others"] for setting in ran]
        processors = dict.fromkeys(run["processor"] for s in ran for run in s["runs"])
        sentences.append(
            f"{record['cores']} cores of {'; '.join(processors)}. Other programs kept "
            f"{min(others):.2f} to {max(others):.2f} cores busy."
        )
    return " ".join(sentences + [SOURCES[name] for name in sources_of(results)])


def verdict_sections(record, results):
    criteria = judge_draw(record["settings"], results)
    rows = [["", "draw", "aim", ""]]
    for each in criteria:
        holds = "holds" if each["holds"] else "does not hold"
        rows.append([each["name"], each["value"], each["aim"], holds])
    if record["short"]:
        return [table(rows, left=1)]
    holds = all(each["holds"] for each in criteria)
    return [paragraph(f"This draw {'holds' if holds else 'does not hold'}."), table(rows, left=1)]


def four_ranks_sections(record):
    if not record["four_ranks"]:
        return []
    results = judge_settings(record["four_ranks"], has_voids=False)
    ran = [result for result in results if result]
    right, total = (sum(result["pairs"][i] for result in ran) for i in (0, 1))
    text = f"Pairs in the right order: {right} of {total}"
    sections = [heading(3, "Four ranks on 2 cores")]
    sections.append(paragraph(text + (f", {percent(right / total)}." if total else ".")))
    first = len(record["settings"]) + 1
    for number, (setting, result) in enumerate(zip(record["four_ranks"], results), first):
        sections += setting_sections(number, setting, result)
    return sections


def draw_sections(number, record):
    results = judge_settings(record["settings"])
    name = f"Draw {number}: seed {record['seed']}"
    if record["short"]:
        name = "A quick look, no draw"
    sections = [heading(2, name), paragraph(conditions(record, results))]
    sections += verdict_sections(record, results)
    sections.append(heading(3, "Cases"))
    for i, (setting, result) in enumerate(zip(record["settings"], results), 1):
        sections += setting_sections(i, setting, result)
    return sections + four_ranks_sections(record)


def settings_sections(seed, settings, four_ranks):
    """Returns what --draw_only prints."""
    sections = [heading(2, f"Seed {seed}")]
    for number, setting in enumerate(settings + four_ranks, 1):
        sections.append(heading(4, title(number, setting)))
        sections.append(paragraph(sizes_text(setting) + "."))
        sections.append(paragraph(", ".join(plan["name"] for plan in setting["plans"])))
    return sections


def wrapped(text):
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def table_as_text(rows, left):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    last = len(widths) - 1
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i < left or i == last else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def table_as_markdown(rows, left):
    last = len(rows[0]) - 1
    marks = ["---" if i < left or i == last else "---:" for i in range(last + 1)]
    header, *others = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, marks, *others))


def as_text(sections):
    blocks = []
    for kind, *content in sections:
        if kind == "heading":
            blocks.append(content[1])
        elif kind == "paragraph":
            blocks.append(wrapped(content[0]))
        else:
            blocks.append(table_as_text(*content))
    return "\n\n".join(blocks) + "\n"


def as_markdown(sections):
    blocks = []
    for kind, *content in sections:
        if kind == "heading":
            blocks.append("#" * content[0] + " " + content[1])
        elif kind == "paragraph":
            blocks.append(wrapped(content[0]))
        else:
            blocks.append(table_as_markdown(*content))
    return "\n\n".join(blocks) + "\n"


def page_of(records):
    """Returns docs/accuracy.md."""
    sections = [each for i, record in enumerate(records, 1) for each in draw_sections(i, record)]
    return INTRODUCTION.read_text() + "\n" + (as_markdown(sections) if sections else NO_DRAW)
