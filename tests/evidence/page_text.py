"""What the pages of results share: a table as text, and a share in %."""


def share(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else "-"


def table_text(titles, rows):
    return "\n".join(["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)] +
                     ["| " + " | ".join(str(c) for c in row) + " |" for row in rows])
