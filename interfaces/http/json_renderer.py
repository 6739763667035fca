"""The renderer of JSON answers."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json
from rest_framework.renderers import JSONRenderer


class FastJSONRenderer(JSONRenderer):
    """Renders JSON with pydantic's encoder. DRF's calls back into Python for each time and id.

    Times, ids and decimals look like DRF's.
    """

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Render the data."""
        if data is None:
            return b""
        if self.get_indent(accepted_media_type or "", renderer_context or {}):
            return bytes(super().render(data, accepted_media_type, renderer_context))
        return to_json(data)
