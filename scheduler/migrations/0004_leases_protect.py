import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0003_executor_round"),
    ]

    operations = [
        migrations.AlterField(
            model_name="lease",
            name="executor",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="leases",
                to="scheduler.executor",
            ),
        ),
    ]
