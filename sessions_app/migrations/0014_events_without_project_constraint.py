import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0013_start_failure")]

    operations = [
        migrations.AlterField(
            model_name="sessionevent",
            name="project",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="sessions_app.project",
            ),
        ),
    ]
