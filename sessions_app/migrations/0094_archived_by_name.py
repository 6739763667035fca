"""A session that only the log knows is found by its `creation_id`."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q
from django.db.models.fields.json import KT


class Migration(migrations.Migration):
    # An index on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0093_by_hand_and_paced")]

    operations = [
        AddIndexConcurrently(
            "sessionevent",
            models.Index(
                "project",
                KT("data__archive__session__creation_id"),
                condition=Q(type="session.archived"),
                name="event_archived_named",
            ),
        )
    ]
