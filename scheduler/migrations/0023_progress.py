"""The newest progress of a live run stands beside its lease."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0022_nodes_audited")]

    operations = [migrations.AddField("lease", "progress", models.JSONField(null=True))]
