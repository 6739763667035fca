"""The WSGI application: REST, admin and pages."""

import os
from importlib import import_module

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")
application = get_wsgi_application()
# With every view and form, which the first request would have to wait for.
import_module("reprise.urls")
