"""Answers as JSON."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json
from rest_framework.renderers import JSONRenderer


class FastJSONRenderer(JSONRenderer):
    """DRF's, with pydantic's encoder: the standard one calls back for each time and each id.

    Times, ids and decimals look as DRF writes them.
    """

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """DRF's hook."""
        if data is None:
            return b""
        if self.get_indent(accepted_media_type or "", renderer_context or {}):
            return bytes(super().render(data, accepted_media_type, renderer_context))
        return to_json(data)
