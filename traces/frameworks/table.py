#!/usr/bin/env python3
"""Writes the table of docs/design/frameworks.md from the files beside this one.

    traces/frameworks/table.py [--check]     --check: exit status 3 where the page is not up to date
"""
import glob
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../../docs/design/frameworks.md")
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"


def facts():
    group, found = None, []
    with open(os.path.join(HERE, "../../shared/framework/framework_facts.h")) as f:
        text = f.read().replace("\\\n", "\n")
    for m in re.finditer(r"#define LW_FRAMEWORK_(\w+)\(|(row|time)\((\w+), ", text):
        if m.group(1):
            group = m.group(1).lower()
        elif group and group != "facts":  # before the first group: the comment at the head
            found.append((group, m.group(3) + ("_ns" if m.group(2) == "time" else "")))
    return found


def shown(fact):
    if not fact:
        return ""
    v = fact["value"]
    return "yes" if v == 1 else "%d" % v if v == int(v) else "%g" % v


def whole(name):
    """A framework with what it takes from its base (docs/formats/framework.md)."""
    with open(os.path.join(HERE, name + ".json"), encoding="utf-8") as f:
        doc = json.load(f)
    if "base" not in doc:
        return doc
    base, without = whole(doc["base"]), set(doc.get("without", []))
    for group in {g for g, _ in facts()}:
        of_base = {k: v for k, v in base.get(group, {}).items() if group + "." + k not in without}
        doc[group] = {**of_base, **doc.get(group, {})}
    own = {(u["option"], u.get("device")) for u in doc.get("usual", [])}
    doc["usual"] = doc.get("usual", []) + [
        u for u in base.get("usual", [])
        if (u["option"], u.get("device")) not in own and "usual." + u["option"] not in without]
    return doc


def table():
    files = sorted(glob.glob(os.path.join(HERE, "*.json")))
    known = [whole(os.path.basename(path)[:-len(".json")]) for path in files]
    lines = ["| | " + " | ".join(d["name"] for d in known) + " |",
             "| --- |" + " --- |" * len(known)]
    for group, name in facts():
        cells = [shown(d.get(group, {}).get(name)) for d in known]
        lines.append("| %s.%s | " % (group, name) + " | ".join(cells) + " |")
    usual = [{u["option"]: u["value"] for u in d.get("usual", [])} for d in known]
    for option in sorted({o for u in usual for o in u}):
        lines.append("| usual --%s | " % option +
                     " | ".join(u.get(option, "") for u in usual) + " |")
    return "\n".join(lines) + "\n"


def main():
    with open(PAGE) as f:
        page = f.read()
    before, rest = page.split(BEGIN)
    new = before + BEGIN + table() + END + rest.split(END)[1]
    if "--check" in sys.argv:
        return 0 if new == page else 3
    with open(PAGE, "w") as f:
        f.write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
