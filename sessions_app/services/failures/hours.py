"""Keeps the figures of hours small: each dimension has a maximum number of values."""

from collections.abc import Mapping

from django.db import connection

from sessions_app.db.bulk import SentRows
from sessions_app.services.failures.figures import Added, Place

MOST_VALUES = 1_000
"""Maximum number of values of a dimension in an hour of a signature; all others are one row."""
OTHERS = ""
"""The value of that row."""

_PLACES = SentRows[[Place]](
    ("project_id", "bigint", lambda at: at.project_id),
    ("dimension", "text", lambda at: at.dimension),
    ("value", "text", lambda at: at.value),
    ("hour", "timestamptz", lambda at: at.hour),
    ("key", "text", lambda at: at.key),
)
# Of each place whether it has a row; and how many values its signature has in the hour, which is 0
# if no place of these is new.
_KNOWN = f"""
    WITH asked AS MATERIALIZED (
        SELECT v.*, h.id IS NOT NULL AS known
        FROM {_PLACES}
        LEFT JOIN sessions_app_failurehour h USING (project_id, dimension, value, hour, key)
    ), counted AS (
        SELECT a.project_id, a.dimension, a.hour, a.key, (
            SELECT count(*) FROM sessions_app_failurehour h
            WHERE h.project_id = a.project_id AND h.key = a.key AND h.dimension = a.dimension
                AND h.hour = a.hour AND h.value <> '') AS values
        FROM (SELECT DISTINCT project_id, dimension, hour, key FROM asked WHERE NOT known) AS a)
    SELECT project_id, dimension, value, hour, key, known, coalesce(c.values, 0)
    FROM asked LEFT JOIN counted c USING (project_id, dimension, hour, key)
"""


def hours_merged(hours: Mapping[Place, Added]) -> list[tuple[Place, Added]]:
    """Return the figures in the order of their rows, with those of all others as one row.

    One statement. What was first has its own row; of those that come together, the ones with most
    failures. The caller holds the lock of the figures.
    """
    named = sorted(place for place in hours if place.dimension)
    own: set[Place] = set()
    room: dict[tuple[object, ...], int] = {}
    if named:
        with connection.cursor() as cursor:
            cursor.execute(_KNOWN, _PLACES.arrays(named))
            for *row, known, values in cursor.fetchall():
                place = Place._make(row)
                room[_without_value(place)] = MOST_VALUES - values
                if known:
                    own.add(place)
    new = [place for place in named if place not in own]
    for place in sorted(new, key=lambda each: -hours[each].sessions):
        if room[_without_value(place)] > 0:
            room[_without_value(place)] -= 1
            own.add(place)
    found: dict[Place, Added] = {}
    for place, added in hours.items():
        all_of_it = not place.dimension or place in own
        found.setdefault(place if all_of_it else place._replace(value=OTHERS), Added()).add(added)
    return sorted(found.items(), key=lambda each: each[0])


def _without_value(place: Place) -> tuple[object, ...]:
    return (place.project_id, place.dimension, place.hour, place.key)
