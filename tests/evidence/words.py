"""What the parts of convert.py share: its two refusals, its data, and how words are found."""
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))


class Cannot(Exception):
    """The row cannot be expressed, for a reason without a figure of the row."""


class BadInput(Exception):
    """One line for the user."""


def load(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return json.load(f)


WORDS = load("words.json")
CONTEXT_OF_STATES = "context groups of state-space layers are not modelled"


def has(text, word):
    return word in text


def has_any_case(text, word):
    return word.lower() in text.lower()


def by_words(rule, cells, fallback):
    """A value; or {"title": T, "words": [[word, value], ...], "else": value}: of the first word
    that the cell contains; or a list of these, of which the first that says something counts."""
    if isinstance(rule, list):
        found = (by_words(one, cells, None) for one in rule)
        return next((value for value in found if value is not None), fallback)
    if not isinstance(rule, dict):
        return rule if rule is not None else fallback
    text = cells.get(rule["title"], "")
    for word, value in rule["words"]:
        if has_any_case(text, word):
            return value
    return rule.get("else", fallback)


def holds(where, cells):
    """{title: expression, ...}: each is found in its cell."""
    return all(re.search(e, cells.get(title, "")) for title, e in where.items())
