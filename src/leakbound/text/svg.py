"""Elements of inline SVG."""

from __future__ import annotations

from markupsafe import Markup


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """An element; text and attributes are escaped, elements among the children are not."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
    )
    if not children:
        return Markup("<{}{}/>").format(name, written)
    return Markup("<{0}{1}>{2}</{0}>").format(name, written, Markup("").join(children))
