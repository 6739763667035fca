"""The base of all that callers send: nothing of it is ignored."""

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """The base of bodies and queries. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
