"""Text for terminals of which everything is seen. No other module makes texts of rich."""

from __future__ import annotations

from typing import Any, cast

from rich import text as rich_text

from reprise_client.cli.unseen import marked


class Text(rich_text.Text):
    """Text of which everything is seen. All texts of tables and lines are made of it."""

    def __init__(self, text: str = "", *args: Any, **options: Any) -> None:
        super().__init__(marked(text), *args, **options)

    @classmethod
    def assemble(cls, *parts: Any, **options: Any) -> Text:
        """Return a text of parts, of which everything is seen, too."""
        return cast("Text", super().assemble(*parts, **options))

    def append(self, text: rich_text.Text | str, *args: Any, **options: Any) -> Text:
        """Append a text, of which everything is seen, too."""
        super().append(marked(text) if isinstance(text, str) else text, *args, **options)
        return self
