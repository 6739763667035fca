"""The WSGI application: REST, admin and pages."""

import os
from importlib import import_module

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")
application = get_wsgi_application()
# Import every view and form now, so that the first request does not wait for it.
import_module("reprise.urls")
