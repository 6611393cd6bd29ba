"""Markup from small functions: what is not markup already is escaped, so hostile names and log text stay text."""

from html import escape
from typing import TypeAlias

Look: TypeAlias = dict[str, str | float | None]  # attributes by name
_PLAIN = {"\n", "\t"}


class Markup(str):
    """Text that is markup already; every other string is escaped where it is put in."""


def clean(text: str) -> str:
    """Without what no document may hold or what would turn the text around: controls, surrogates, bidi marks.

    >>> clean("a\\x00b\\u202ec")
    'a\ufffdb\ufffdc'
    """
    return "".join(c if c in _PLAIN or c.isprintable() else "\ufffd" for c in text)


def markup(content: str) -> Markup:
    """The content as markup.

    >>> markup("<b>")
    '&lt;b&gt;'
    """
    return content if isinstance(content, Markup) else Markup(escape(clean(content)))


def tag(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """One element; an attribute's underscores are hyphens (`class_` is class), None leaves it out.

    >>> tag("a", "1 < 2", class_="x", font_size=12.0)
    '<a class="x" font-size="12">1 &lt; 2</a>'
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{said}>{''.join(markup(part) for part in content)}</{name}>")


def joined(*parts: str) -> Markup:
    """Parts one after the other."""
    return Markup("".join(markup(part) for part in parts))


def _value(value: str | float) -> str:
    return escape(clean(value)) if isinstance(value, str) else number(value)


def number(value: float) -> str:
    """A coordinate with one digit after the point, where it needs one."""
    return f"{value:.1f}".removesuffix(".0")


def short(name: str, most: int = 40) -> str:
    """A name cut in its middle.

    >>> short("abcdefghij", 7)
    'abc…hij'
    """
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[:half]}…{name[-half:]}"
