"""Specifications of new chains: what is to run, shared by all attempts."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from sessions_app.db.bulk import array, json_array
from sessions_app.services.secrets.stored import environ_stored

_INSERT = """
    INSERT INTO sessions_app_sessionspec
        (id, request_digest, image, command, environ, resources, mounts, ports, labels, pod_spec,
         cluster_size, batch_timeout, scheduling_timeout, termination_grace_period, secret_names,
         secret_environ)
    SELECT v.id, v.request_digest, v.image, v.command::jsonb, v.environ::jsonb,
        v.resources::jsonb, v.mounts::jsonb, v.ports::jsonb, v.labels::jsonb,
        nullif(v.pod_spec, 'null')::jsonb, v.cluster_size, v.batch_timeout, v.scheduling_timeout,
        v.termination_grace_period, nullif(v.secret_names, '[]')::jsonb, v.secret_environ
    FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::text[], %s::text[], %s::text[], %s::text[], %s::int[], %s::float8[], %s::float8[],
        %s::float8[], %s::text[], %s::text[])
        AS v(id, request_digest, image, command, environ, resources, mounts, ports, labels,
             pod_spec, cluster_size, batch_timeout, scheduling_timeout, termination_grace_period,
             secret_names, secret_environ)
"""
_JSON = ("command", "environ", "resources", "mounts", "ports", "labels", "pod_spec")
_NUMBERS = (
    "cluster_size",
    "batch_timeout",
    "scheduling_timeout",
    "termination_grace_period",
)


class NewSpec(NamedTuple):
    """A specification about to be inserted, and the digest of the request that it comes from."""

    id: UUID
    digest: str
    fields: Mapping[str, Any]
    """Those of `SessionSpec`."""
    secrets: Mapping[str, str]


def specs_insert(news: Iterable[NewSpec]) -> None:
    """Insert specifications in one statement, their secrets encrypted."""
    ids, digests, specs, secrets = zip(*news, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT,
            [
                array(ids),
                array(digests),
                array(spec["image"] for spec in specs),
                *(json_array(spec[name] for spec in specs) for name in _JSON),
                *(array(spec[name] for spec in specs) for name in _NUMBERS),
                json_array(sorted(each) for each in secrets),
                array(environ_stored(each) for each in secrets),
            ],
        )
