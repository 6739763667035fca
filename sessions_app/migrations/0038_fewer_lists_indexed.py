"""Each session writes to one index less: all sessions of a project are read queue by queue."""

from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    # An index on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0037_pages")]

    operations = [RemoveIndexConcurrently(model_name="session", name="session_of_project")]
