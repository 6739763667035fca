"""Job sets in GraphQL: the sessions that a project submitted under one name."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import graphene

from interfaces.graphql.connections import (
    Page,
    Slice,
    connection_source,
    connection_to,
    one,
    pages,
    pages_below,
    slice_of,
)
from interfaces.graphql.context import actor_of
from interfaces.graphql.errors import read_arguments
from interfaces.graphql.events import EventConnection, event_peers
from interfaces.graphql.nodes import RestObject
from interfaces.graphql.peers import Peer, Peers, belonging, one_by_one, single_peer
from interfaces.graphql.shapes import arguments_of, shape_of
from interfaces.graphql.tenants import Project, render_projects
from interfaces.http.paging import job_set_cursor, job_set_place
from interfaces.render.session_render import job_set_json
from interfaces.requests.queries import JobSetFilter
from interfaces.shapes import session_shapes as shapes
from sessions_app.authorization import Actor
from sessions_app.core.cursors import START, parse_cursor
from sessions_app.core.errors import NotFound
from sessions_app.eventlog.reading import JobSet as Row
from sessions_app.eventlog.reading import job_set_get, job_sets, job_sets_events
from sessions_app.selectors.sessions import job_set_project, projects_visible
from sessions_app.selectors.tenants import projects_listed

_Shape: Any = shape_of(shapes.JobSet, leave_out={"project"})


class JobSet(_Shape, RestObject):
    """A job set: sessions of one project that were submitted under one name."""

    project = graphene.Field(Project, required=True)
    events = pages(EventConnection, "The events of all its sessions, in order.")

    @staticmethod
    def resolve_project(source: Peer[Row], info: Any) -> Any:
        return source.ask("project", partial(_projects, actor_of(info)))

    @staticmethod
    def resolve_events(source: Peer[Row], _info: Any, **asked: Any) -> dict[str, Any]:
        page = Page.of(asked)
        return pages_below(source, "events", page, partial(_events, page), event_peers)


JobSetConnection = connection_to(JobSet)


class JobSetQueries:
    """The root fields of job sets."""

    job_set = one(
        JobSet,
        "A job set of a project: the given project, the token's, or the default one.",
        name=graphene.String(required=True),
        project=graphene.String(description="`domain/name`."),
    )
    job_sets = pages(
        JobSetConnection,
        "The job sets in the event log, by project and name.",
        **arguments_of(JobSetFilter),
    )

    @staticmethod
    def resolve_job_set(_root: None, info: Any, name: str, project: str | None = None) -> Peer[Row]:
        """Return a job set that occurs in the log."""
        found = job_set_get(job_set_project(actor_of(info), name, project).pk, name)
        if found is None:
            raise NotFound(f"no job set {name}")
        return single_peer(JobSet, found, _render_job_sets)

    @staticmethod
    def resolve_job_sets(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page = Page.of(asked)
        wanted = read_arguments(JobSetFilter, asked)
        projects = projects_visible(actor_of(info), wanted.project)
        rows = job_sets(projects, job_set_place(page.after), page.first + 1)
        found = slice_of(rows, page, [job_set_cursor(row) for row in rows])
        return connection_source(found, page, Peers(JobSet, found.rows, _render_job_sets).each())


_render_job_sets = one_by_one(job_set_json)


def _projects(actor: Actor, rows: Sequence[Row]) -> list[Any]:
    keys = [row.project_id for row in rows]
    return belonging(Project, keys, projects_listed(actor).in_bulk(set(keys)), render_projects)


def _events(page: Page, rows: Sequence[Row]) -> list[Slice[Any]]:
    try:
        place = START if page.after is None else parse_cursor(page.after)
    except ValueError as error:
        raise NotFound("the cursor is invalid") from error
    wanted = [(row.project_id, row.name) for row in rows]
    found = job_sets_events(wanted, place, page.first + 1)
    return [slice_of(each, page, [str(event.cursor) for event in each]) for each in found]
