"""Lists of numbers, as the kernel writes them."""

import re


def numbers(ranges: str) -> "frozenset[int]":
    """The numbers in a list of the kernel: ``0-2,5``. Words that are not numbers are left out."""
    words = (re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", word) for word in ranges.split(","))
    edges = [(int(word.group(1)), int(word.group(2) or word.group(1))) for word in words if word]
    return frozenset(number for low, high in edges for number in range(low, high + 1))
