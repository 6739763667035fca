from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("scheduler", "0010_start_verification")]

    operations = [
        AddIndexConcurrently(
            "lease",
            models.Index("verify_at", condition=Q(verify_at__isnull=False), name="lease_verify"),
        ),
    ]
