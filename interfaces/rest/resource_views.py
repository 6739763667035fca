"""REST's views of plain kinds. A view names its kind; what the kind declares is what it offers.

A method that a kind does not declare is a 405, unless the view has it by hand, with its action in
`actions` and its `extend_schema`.
"""

from typing import Any, ClassVar
from urllib.parse import quote

from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.http.paging import RowCursor
from interfaces.http.preconditions import IF_MATCH, etag, expected_of
from interfaces.http.views import UNKEPT, RestView, body_of, require_no_body
from interfaces.kinds.resource import Call, Listing, Resource
from interfaces.openapi.generator import RepriseSchema, query_parameters
from interfaces.requests.queries import query_of
from sessions_app.core.versions import Expected


class ResourceSchema(RepriseSchema):
    """Documents the calls as they are declared."""

    @property
    def declared(self) -> Any:
        """Return the declaration of the call, None if the view has it by hand."""
        view: Any = self.view
        return view.calls.get(self.method)

    @property
    def of(self) -> Resource:
        """Return the kind of the view."""
        view: Any = self.view
        kind: Resource = view.of
        return kind

    def get_operation_id(self) -> str:
        view: Any = self.view
        name: str = self.declared.named or view.usual_name(self.method)
        return name

    def get_description(self) -> str:  # type: ignore[override]  # as in drf-spectacular
        return self.declared.says if self.declared else super().get_description()

    def get_override_parameters(self) -> list[Any]:
        if isinstance(self.declared, Listing):
            return [*query_parameters(self.declared.query)]
        guarded = self.declared and self.of.version and self.method in {"PUT", "PATCH", "DELETE"}
        return [IF_MATCH] if guarded else []

    def get_request_serializer(self) -> Any:
        return getattr(self.declared, "body", None)

    def get_response_serializers(self) -> Any:
        call = self.declared
        if isinstance(call, Listing):
            return {200: self.of.page}
        if self.method == "DELETE":
            return {204: None}
        shape = call.shape or self.of.shape
        if call.creates:
            return {200: shape, 201: shape}
        return {201 if call is self.of.create else call.status: shape}


class ResourceView(RestView):
    """The base of the views of plain kinds."""

    of: ClassVar[Resource]
    calls: ClassVar[dict[str, Call | Listing]]
    schema = ResourceSchema()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "of"):
            return
        cls.calls = {method: call for method, call in cls.declared().items() if call is not None}
        cls.actions = {method: call.action for method, call in cls.calls.items()} | cls.actions
        offered = {*cls.actions, "HEAD"} if "GET" in cls.actions else {*cls.actions}
        cls.http_method_names = [
            name for name in RestView.http_method_names if name.upper() in offered
        ]

    @classmethod
    def declared(cls) -> dict[str, Call | Listing | None]:
        """Return the declared call of each method."""
        raise NotImplementedError

    @classmethod
    def route(cls) -> str:
        """Return the pattern of the view's address."""
        raise NotImplementedError

    @classmethod
    def usual_name(cls, method: str) -> str:
        """Return the usual `operationId` of a method."""
        raise NotImplementedError

    @property
    def call(self) -> Any:
        """Return the declaration of the present call."""
        return self.calls["GET" if self.request.method == "HEAD" else str(self.request.method)]

    def expected(self) -> tuple[Expected | None, ...]:
        """Return the version that the caller means to change, if the kind has versions."""
        return (expected_of(self.request),) if self.of.version else ()

    def answer(self, call: Call, result: Any, status: int, **headers: str) -> Response:
        """Return the response with the result of a call."""
        if self.of.version:
            headers |= etag(self.of.version(call.row(result)))
        if call.once:
            headers |= UNKEPT
        if call.location:
            headers["Location"] = self.request.build_absolute_uri(call.location(result))
        return Response(self.of.shown(self.actor, call, result), status=status, headers=headers)


class ResourceList(ResourceView):
    """The list of a kind."""

    @classmethod
    def declared(cls) -> dict[str, Call | Listing | None]:
        return {"GET": cls.of.listing, "POST": cls.of.create}

    @classmethod
    def route(cls) -> str:
        return f"{cls.of.address}/"

    @classmethod
    def usual_name(cls, method: str) -> str:
        return f"{cls.of.many}_{'create' if method == 'POST' else 'list'}"

    def get(self, request: Request) -> Response:
        """Answer one page."""
        listing = self.call
        rows = listing.rows(self.actor)
        wanted = query_of(listing.query, request.query_params)
        cursor = RowCursor(*listing.order, unique=listing.unique)
        page = cursor.read(wanted.apply(self.actor, rows), request)
        return cursor.get_paginated_response(self.of.render(self.actor, page))

    def post(self, request: Request) -> Response:
        """Create one, and answer it with its address."""
        call = self.call
        made = call.run(self.actor, body_of(request))
        place = f"{quote(self.of.at(call.row(made)))}/"
        kept = {} if self.of.version else UNKEPT
        location = request.build_absolute_uri(place)
        return self.answer(call, made, 201, Location=location, **kept)


class ResourceOne(ResourceView):
    """One object of a kind."""

    verbs: ClassVar = {"GET": "read", "PUT": "apply", "PATCH": "change", "DELETE": "delete"}

    @classmethod
    def declared(cls) -> dict[str, Call | Listing | None]:
        of = cls.of
        return {"GET": of.read, "PUT": of.put, "PATCH": of.patch, "DELETE": of.delete}

    @classmethod
    def route(cls) -> str:
        return f"{cls.of.address}/{cls.of.place}/"

    @classmethod
    def usual_name(cls, method: str) -> str:
        return f"{cls.of.name}_{cls.verbs[method]}"

    def get(self, request: Request, **names: Any) -> Response:
        """Answer the object."""
        call = self.call
        return self.answer(call, call.run(self.actor, *self.of.key(**names), call.action), 200)

    def put(self, request: Request, **names: Any) -> Response:
        """Replace the object, or create it if the kind can be created so."""
        call = self.call
        result, made = self._written(call, names), False
        if call.creates:
            result, made = result
        return self.answer(call, result, 201 if made else 200)

    def patch(self, request: Request, **names: Any) -> Response:
        """Change some fields of the object."""
        call = self.call
        return self.answer(call, self._written(call, names), 200)

    def _written(self, call: Call, names: dict[str, Any]) -> Any:
        key = self.of.key(**names)
        return call.run(self.actor, *key, body_of(self.request), *self.expected())

    def delete(self, request: Request, **names: Any) -> Response:
        """Delete the object."""
        call = self.call
        call.run(self.actor, *self.of.key(**names), *self.expected())
        return Response(status=204)


class ResourceAct(ResourceView):
    """What one can do to an object of a kind, `act` by its name."""

    act: ClassVar[str]

    @classmethod
    def declared(cls) -> dict[str, Call | Listing | None]:
        return {"POST": cls.of.acts[cls.act]}

    @classmethod
    def route(cls) -> str:
        return f"{cls.of.address}/{cls.of.place}/{cls.act}/"

    @classmethod
    def usual_name(cls, _method: str) -> str:
        return f"{cls.of.name}_{cls.act}"

    def post(self, request: Request, **names: Any) -> Response:
        """Do it, and answer the object as it is then."""
        call = self.call
        if call.body is None:
            require_no_body(request)
        sent = () if call.body is None else (body_of(request),)
        result = call.run(self.actor, *self.of.key(**names), *sent)
        return self.answer(call, result, call.status)
