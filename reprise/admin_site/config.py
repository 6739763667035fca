"""Django's admin, with the site of the operators in the place of its own."""

from django.contrib.admin.apps import SimpleAdminConfig


class OperatorsConfig(SimpleAdminConfig):
    """Under a module of its own, because naming the site's would load it too soon.

    Forms and pages are found by `reprise.urls`: a worker or a command starts without them.
    """

    default_site = "reprise.admin_site.site.OperatorsSite"
