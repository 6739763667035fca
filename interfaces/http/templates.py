"""The templates of schedules, read again at each time by the rules that hold then."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from interfaces.http.problems import field_errors
from interfaces.requests.bodies import SessionTemplate
from retry.policies.inline import STORED
from sessions_app.core.errors import InvalidInput
from sessions_app.services.sessions.submission import Submission


def read_template(template: Mapping[str, Any]) -> Submission:
    """Return a stored template as a submission. Raises `InvalidInput`."""
    try:
        return SessionTemplate.model_validate(template, context=STORED).submission()
    except ValidationError as error:
        raise InvalidInput(field_errors(error, "template")) from None
