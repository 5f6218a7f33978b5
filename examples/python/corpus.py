"""Text for the examples: the manual pages that every Python carries in pydoc_data."""

import re

from pydoc_data.topics import topics


def paragraphs(count: int, length: int = 300) -> list[str]:
    """The first paragraphs of prose of some length, cut there."""
    found = []
    for page in topics.values():
        for paragraph in page.split("\n\n"):
            text = re.sub(r"\s+", " ", paragraph).strip()
            if len(text) >= length and text[0].isupper() and "::=" not in text:
                found.append(text[:length])
                if len(found) == count:
                    return found
    return found
