"""Django's admin, with the site of the operators in the place of its own."""

from django.contrib.admin.apps import AdminConfig


class OperatorsConfig(AdminConfig):
    """As Django's; under a module of its own, because naming the site's would load it too soon."""

    default_site = "reprise.site.OperatorsSite"
