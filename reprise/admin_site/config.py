"""The configuration of Django's admin with the operators' site as its default."""

from django.contrib.admin.apps import SimpleAdminConfig


class OperatorsConfig(SimpleAdminConfig):
    """The configuration of the admin; in site.py it would load the site too soon.

    `reprise.urls` imports forms and pages, so that workers and commands start without them.
    """

    default_site = "reprise.admin_site.site.OperatorsSite"
