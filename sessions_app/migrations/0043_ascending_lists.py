"""The indexes of lists have ids in ascending order, and lists read them backwards.

New entries come last. In descending order they came first, and each full page was split into halves.
"""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q

IDS = F("id").asc(nulls_first=True)
FINAL = Q(phase="final")
FAILED = FINAL & ~Q(retry_cause__in=["", "user_cancelled"])
# The name that each index replaces, and its columns, condition and name.
INDEXES = [
    ("session_of_queue", ["queue"], None, "session_by_queue"),
    ("session_of_waiting", ["project"], Q(phase="waiting"), "session_waiting"),
    ("session_of_live", ["project"], Q(phase="live"), "session_live"),
    ("session_failed", ["project"], FAILED, "session_failures"),
    ("session_owner_project", ["owner", "project"], None, "session_by_owner"),
    ("session_of_job_set", ["project", "job_set"], ~Q(job_set=""), "session_by_job_set"),
    (
        "session_other_types",
        ["project", "session_type"],
        ~Q(session_type="batch"),
        "session_by_type",
    ),
    ("session_cause", ["project", "retry_cause"], FINAL, "session_by_cause"),
    (
        "session_category",
        ["project", "failure_category"],
        ~Q(failure_category=""),
        "session_by_category",
    ),
    ("session_node", ["project", "node"], ~Q(node=""), "session_by_node"),
]


class Migration(migrations.Migration):
    # Indexes on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0042_placement")]

    operations = [
        step
        for old, columns, condition, name in INDEXES
        for step in (
            AddIndexConcurrently(
                "session", models.Index(*columns, IDS, condition=condition, name=name)
            ),
            RemoveIndexConcurrently("session", old),
        )
    ]
